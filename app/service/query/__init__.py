"""SQL over datasets: planned and pinned here, computed in confined processes, answered as asked.

query.py     one query from request to rows: the only way for HTTP, verification and pages
inputs.py    names of tables → datasets that the caller may read, as of a block
files.py     slices → hashed files that a process may read
engine.py    processes, seen from here: a question goes in, rows come out
proofs.py    the node's key; verify.py checks answers by it
"""
