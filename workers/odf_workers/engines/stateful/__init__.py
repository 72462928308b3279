"""Stateful queries: windows, joins in time and rankings, updated from changes of the inputs alone.

A query is read once, without rows. `plan.py` is the entry point. `rowwise.py` has the table of
readers (windows, joins, rankings, single rows), which turn nodes of Spark's plan into operators
(`operators.py`) and parts of the query between them (`times.py`, which also derives what watermarks
promise).

A run computes over new rows. `step.py` is the entry point, and advances one operator after the
other, with `results.py`. `state.py` has the data that operators share and the files between two
computations of Spark; it makes the output, and reads and writes the checkpoint.

`trace.py` runs a query over all rows at once, and says from which of them a row was made.
"""

from .plan import Plan, stateful_plan
from .query import SESSION_SETTINGS, Dropped, ForeignState, NewRows, StatefulInput, StatefulResult
from .step import run
from .trace import trace

__all__ = [
    "SESSION_SETTINGS",
    "Dropped",
    "ForeignState",
    "NewRows",
    "Plan",
    "StatefulInput",
    "StatefulResult",
    "run",
    "stateful_plan",
    "trace",
]
