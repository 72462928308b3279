"""The part of the node that does the work: claim a job, plan it, run it on Spark, commit the
result.

The package depends on `storage` and `protocol`, and not on `app`. It guarantees that a job that
dies leaves nothing visible, and that the same rows give the same bytes on every worker.
"""
