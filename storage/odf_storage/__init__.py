"""Durable state: ports on one page, adapters behind them, and datasets made of the two.

Neighbours: `protocol` below; `app` and `workers` above, which meet only in the job queue
kept here. Promises: nothing becomes visible before it is whole; heads move by
compare-and-swap only.
"""
