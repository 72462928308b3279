"""Datasets published as Kartothek datasets, into other stores or served by the node."""
