"""SQL over datasets: the service plans and pins a query; a confined process computes it.

query.py     one query from request to rows; HTTP, verification and pages all use it
inputs.py    names of tables → datasets that the caller may read, as of a block
files.py     slices → hashed files that a process may read
engine.py    the service's end of a query process: sends a question, receives rows
proofs.py    signs answers with the node's key
verify.py    checks signed answers
"""
