"""Which slices a filter has to open: what is known of slices, and plans made of it."""
