"""The HTTP surface: OpenAI-compatible requests in, answers, streams and figures out. Needs the extra `server`."""
