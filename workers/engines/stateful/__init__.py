"""Queries that remember: windows, joins in time, rankings, kept up to date from changes alone.

Reading a query, once and without rows: `plan.py` begins; `recognise.py` is the table of readers
(`windows`, `joins`, `rankings`, `rowwise`), which make `operators.py` and `pieces.py` of the nodes;
`times.py` and `clock.py` know what watermarks promise.

Running it, over new rows: `run.py` begins; `step.py` takes one operator on, by `fold.py` and
`results.py`; `context.py` is what operators share, and the files between two computations of
Spark; `emit.py` makes the output; `state.py` is the checkpoint.
"""

from .plan import Plan, stateful_plan
from .port import SESSION_SETTINGS, Dropped, ForeignState, NewRows, Result, StatefulInput
from .run import run

__all__ = [
    "SESSION_SETTINGS",
    "Dropped",
    "ForeignState",
    "NewRows",
    "Plan",
    "Result",
    "StatefulInput",
    "run",
    "stateful_plan",
]
