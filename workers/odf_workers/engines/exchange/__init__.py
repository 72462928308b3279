"""Exchange files between a worker and executors on other machines, which cannot see its disk.

Files pass through the node's bucket, under `.exchange/<random>/…`. Stages
(`odf_workers/partitions`) and Spark's frames (`odf_workers/engines/spark/frames.py`) use the
same method in each direction:

* To executors: the worker *lends* a file (`worker_side.lend`). The loan is a signed link to read
  the file, valid for a limited time, and the hash of its bytes; or of some of its bytes, if a task
  needs no more (`lend_spans`). If the file is a copy of an object of the bucket, the link leads to
  that object. A file that further jobs need stays in the bucket (`lend_lasting`). An executor
  fetches what is lent once, checks its hash, and keeps it for later tasks
  (`executor_side.at_hand`).
* From executors: the worker makes an *outbox* of links, one for each attempt at each partition
  (`worker_side.outbox`). A task *delivers* a file into it (`executor_side.deliver`) with a checksum
  for the bucket, and returns its hash. The worker *keeps* the file as an object, which the bucket
  copies (`worker_side.keep`), or *collects* it (`worker_side.collect`) and compares the hash.

Executors run queries of strangers, so they have no credentials for the bucket, only those links.
They need the same Python packages as a worker. The bucket may return wrong bytes, so each reader
checks the hash before it uses a row. The cleanup of abandoned writes also removes the files of a
worker that died.

`files.py` defines the types of both sides; `links.py` is the HTTP client of executors.
"""
