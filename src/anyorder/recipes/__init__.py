"""Recipes that come with the package, as TOML files; `anyorder train NAME` runs one."""
