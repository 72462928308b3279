"""What a dataset is made of, and what is made of it."""
