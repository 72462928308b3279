"""What operators ask of a node."""
