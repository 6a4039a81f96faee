"""Weights of 8 and 4 bits: which schemes there are, and the products that compute with them."""

from anyorder.models.quantised.schemes import EXPERTS, ROUTING, SCHEMES, Scheme, num_bytes, parse_scheme

__all__ = ["EXPERTS", "ROUTING", "SCHEMES", "Scheme", "num_bytes", "parse_scheme"]
