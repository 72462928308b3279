"""The coordinator's hands: claim a job, plan it, run it on Spark, commit the result.

Neighbours: `storage` and `protocol` below; `app` is a stranger. Promises: a job that dies
leaves nothing visible; the same rows give the same bytes on every worker.
"""
