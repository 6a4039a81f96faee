"""From resolved parameters, a model and a prompt to a decoder, and what it will need."""
