"""All datasets of a node together."""
