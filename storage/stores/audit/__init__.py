"""Who did what on this node."""
