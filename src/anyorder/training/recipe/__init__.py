"""Recipes: one TOML file says what is trained on what, how, and for how long; here it is checked and carried out."""
