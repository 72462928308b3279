"""Applications of a node: the framework that all share, and the one that serves queries alone."""
