"""Convert bytes to rows: one module per format, as strict as the specification, in limited
memory."""
