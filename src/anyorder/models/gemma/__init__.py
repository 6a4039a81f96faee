"""DiffusionGemma: Gemma 4's text stack, read causally as encoder and both ways over a canvas as decoder."""
