"""Convert bytes to rows: one module per format, strict as the specification, in limited memory."""
