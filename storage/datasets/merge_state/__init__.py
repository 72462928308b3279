"""What merges need to know of a history, kept beside the chain: a cache, never the truth."""
