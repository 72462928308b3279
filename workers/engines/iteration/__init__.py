"""One iteration of a derivative, as every engine of ours does it."""
