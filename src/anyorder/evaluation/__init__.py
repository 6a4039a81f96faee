"""Models in evaluation harnesses."""
