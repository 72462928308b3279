"""A failure of a stage, as it travels from where the stage runs to where it is waited for."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

from odf_node.protocol.errors import NodeError, Unavailable


class StageFailed(Unavailable):
    """Executors could not run a stage, for no reason that the rows give."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class FailedInside(Exception):
    """A stage raised what no stage should; the message is its traceback, for the log."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of this node without its traceback, which says where it was raised and nothing of
    the rows; of any other error, its traceback is all there is."""

    kind: type[Exception]
    args: tuple[Any, ...]
    state: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> Failure:
        if not isinstance(error, NodeError):
            return cls(FailedInside, ("".join(traceback.format_exception(error)),))
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> Exception:
        """The error again, made without its constructor: those have signatures of their own."""
        made = self.kind.__new__(self.kind)
        made.args = self.args
        vars(made).update(self.state)
        return made
