"""The worker: claims a job, plans it, runs it on Spark, and commits the result.

The package depends on `storage` and `protocol`, and not on `app`. It guarantees that a job that
dies leaves nothing visible, and that the same rows give the same bytes on every worker.
"""
