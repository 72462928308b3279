"""Queries that remember: windows, joins in time, rankings, kept up to date from changes alone."""

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
