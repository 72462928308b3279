"""Rights to define transforms and polling sources of datasets."""
