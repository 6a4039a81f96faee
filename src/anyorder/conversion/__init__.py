"""Conversion: an autoregressive checkpoint becomes a diffusion model, measured before and after."""
