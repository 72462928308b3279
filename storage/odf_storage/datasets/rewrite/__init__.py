"""Give a dataset another history (compaction, reset), or set its watermark by hand.

Plans are pure functions and need no data; a worker merges the rows. The head moves by
compare-and-swap from the head the plan was made for, so blocks added meanwhile are not lost. Old
blocks and files stay until they are older than the grace time of garbage collection.
"""
