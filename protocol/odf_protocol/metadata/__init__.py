"""The model: blocks, events, sources, transforms, data types, with the names of the ODF schemas."""
