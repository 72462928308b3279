"""Giving a dataset another history: compaction, reset; and a watermark by hand.

Plans are pure and need no data; rows are merged by a worker. The head moves by compare-and-swap
from the one that was planned from, so nothing that was added meanwhile is lost. Old blocks and
files stay until garbage collection finds them older than its grace time.
"""
