"""Which slices a filter has to open: bounds of slices, and plans that use them."""
