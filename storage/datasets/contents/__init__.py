"""What the blocks of a dataset say of its objects, and whether it is so."""
