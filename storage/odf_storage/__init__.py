"""Durable state: stores, and datasets made of them.

Neighbours: `protocol` below; `app` and `workers` above, which meet only in the job queue
kept here. Promises: nothing becomes visible before it is whole; heads move by
compare-and-swap only.
"""
