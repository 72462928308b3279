"""How much of the service each caller may have."""
