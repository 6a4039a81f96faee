"""Sweeps: one set of prompts decoded in many ways, and which way is the fastest that is still good enough."""
