"""Stateful queries: windows, joins in time and rankings, updated from changes of the inputs alone.

A query is read once, without rows. `plan.py` is the entry point. `recognise.py` has the table of
readers (`windows`, `joins`, `rankings`, `rowwise`), which turn nodes of Spark's plan into operators
(`operators.py`) and parts (`pieces.py`). `times.py` and `clock.py` derive what watermarks promise.

A run computes over new rows. `run.py` is the entry point. `step.py` advances one operator, with
`fold.py` and `results.py`. `context.py` has the data that operators share, and the files between
two computations of Spark; `emit.py` makes the output; `state.py` reads and writes the checkpoint.
"""

from .plan import Plan, stateful_plan
from .query import SESSION_SETTINGS, Dropped, ForeignState, NewRows, Result, StatefulInput
from .step import run

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
