"""Applications of a node: the framework of all, the one of all pages, the one of queries alone."""
