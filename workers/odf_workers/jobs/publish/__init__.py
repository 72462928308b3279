"""Publications of datasets as tables for other programs."""
