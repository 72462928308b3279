"""The ODF standard as values and rules: no clock, no file, no socket, no thread.

Neighbours: none below; `storage`, `workers` and `app` build on it. Promises: everything is
deterministic, every decoder bounds what it reads, every error is a `NodeError`.
"""
