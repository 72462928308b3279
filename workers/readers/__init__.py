"""Bytes to rows: one module a format, strict as the specification says, in bounded memory."""
