"""Which datasets follow a dataset elsewhere."""
