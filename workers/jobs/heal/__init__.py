"""Objects that are made again because the stored ones are not whole."""
