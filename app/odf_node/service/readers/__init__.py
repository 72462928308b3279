"""The service's end of readers: processes that read, compute and encode rows, one per answer.

Nobody knows the unpacked size of a few kilobytes of Parquet before they are unpacked. So the
service never unpacks: it plans a task (`tasks.py`), sends it to a reader, forwards the bytes that
the reader returns (`pool.py`), and ends the reader with the request. A reader has no secrets and no
access: no address of a database, no key, and only the files that the service opens for it.

    service (pool.py)              nursery (nursery.py)            reader (child.py)
    starts  ─────────────────────► imports what readers need
                                   forks readers ahead  ─────────► waits for a task
    one end of a socket pair ──────────────────────────────────►   takes it
    task (messages.py)  ───────────────────────────────────────►   runs it (tasks.py)
                        ◄── need: an object, opened and hashed ──
                            file descriptor ───────────────────►
                        ◄── pieces of the answer, end or failure
    closes its end                                                 ends at once
"""
