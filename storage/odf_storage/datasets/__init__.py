"""Everything about one dataset: commits, reads, rewrites, verification, upkeep."""
