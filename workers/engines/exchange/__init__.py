"""Files between a worker and executors on other machines, which see none of its disk.

They go through the node's bucket, in `.exchange/<random>/…`. There is one way for each direction,
for stages (`workers/partitions`) and for Spark's frames (`workers/engines/spark/far_frames.py`):

* To executors: the worker *lends* a file (`worker_side.lend`). The loan is a link to read it,
  signed for a while, and the hash of what is there. A file that is a copy of an object of the
  bucket is lent where it lies. An executor has it *at hand* (`executor_side.at_hand`): fetched
  once, hashed, and kept for the tasks that follow.
* From executors: the worker makes an *outbox* of links, one for each attempt at each partition
  (`worker_side.outbox`). A task *delivers* a file into it (`executor_side.deliver`) and tells its
  hash; the worker *collects* the file (`worker_side.collect`) and hashes what it finds.

Executors run queries of strangers, so they have no key of the bucket, only those links. They need
the same Python packages as a worker. The bucket is trusted to keep bytes, not to keep them right:
who reads hashes before it looks at a row. What is left of a worker that died is collected with
other abandoned writes.

`files.py` holds what both sides name; `links.py` is the HTTP of executors.
"""
