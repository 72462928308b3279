"""Rows are read, computed and encoded here, in processes of their own, one for each answer.

What a few kilobytes of Parquet unpack to is known only once they are unpacked. So the service
never does: it plans (`tasks.py`), hands the plan to a reader, passes on the bytes that come back
(`pool.py`), and ends the reader with the request. A reader has nothing worth stealing and
nowhere to go: no address of a database, no key, no file but those the service opens for it.

    service (pool.py)              nursery (nursery.py)            reader (child.py)
    starts  ─────────────────────► imports what readers need
                                   forks readers ahead  ─────────► waits for a task
    one end of a socket pair ──────────────────────────────────►   takes it
    task (messages.py)  ───────────────────────────────────────►   runs it (tasks.py)
                        ◄── need: an object, opened and hashed ──
                            file descriptor ───────────────────►
                        ◄── pieces of the answer, end or failure
    closes its end                                                 ends, whatever it does
"""
