"""A failure of a stage, in a form that can be sent from the stage to its caller."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

from odf_protocol.errors import NodeError, Unavailable


class StageFailed(Unavailable):
    """Executors could not run a stage, for a reason unrelated to the rows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class FailedInside(Exception):
    """A stage raised an unexpected error; the message is its traceback, for the log."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in a form that can be pickled. An error of this node is kept without its traceback,
    which shows where it was raised but nothing of the rows; any other error is kept as its
    traceback alone."""

    kind: type[Exception]
    args: tuple[Any, ...]
    state: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        if not isinstance(error, NodeError):
            return cls(FailedInside, ("".join(traceback.format_exception(error)),))
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> Exception:
        """Rebuild the error without calling its constructor, because constructors have various
        signatures."""
        made = self.kind.__new__(self.kind)
        made.args = self.args
        vars(made).update(self.state)
        return made
