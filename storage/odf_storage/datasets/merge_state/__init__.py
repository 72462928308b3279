"""What merges need to know of a history, kept beside the chain as a cache; the chain decides."""
