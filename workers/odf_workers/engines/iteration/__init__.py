"""One iteration of a derivative: the part that all engines of this node share."""
