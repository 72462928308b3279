"""Signed notes, transparency logs, records of heads: formats of C2SP, and ours."""
