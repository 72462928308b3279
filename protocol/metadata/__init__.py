"""The model: blocks, events, sources, transforms, data types, in the words of the ODF schemas."""
