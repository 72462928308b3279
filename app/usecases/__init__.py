"""What the node does, free of HTTP."""
