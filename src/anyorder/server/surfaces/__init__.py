"""The endpoints, one module per surface."""
