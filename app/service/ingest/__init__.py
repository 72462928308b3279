"""Posted data on its way to a worker."""
