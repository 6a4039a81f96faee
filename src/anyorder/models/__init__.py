"""Networks of the supported families, their tokenizers and the loading of published checkpoints."""
