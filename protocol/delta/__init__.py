"""Delta tables as readers of Delta Lake know them: schemas, deletion vectors. Pure."""
