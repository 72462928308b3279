"""Kartothek datasets, format 4: keys, state, schema, indices and predicates as values."""
