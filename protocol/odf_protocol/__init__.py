"""The ODF standard as values and rules, without any clock, file, socket or thread.

This package depends on no other package of the project; `storage`, `workers` and `app` build on
it. Promises: everything is deterministic, every decoder limits what it reads, and every error is a
`NodeError`.
"""
