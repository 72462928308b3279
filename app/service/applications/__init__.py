"""Applications of a node: what all of them are put into, and those beside the whole service."""
