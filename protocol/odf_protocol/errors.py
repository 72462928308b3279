"""The base classes of all errors that the node reports.

An error has a code, such as `DependencyCycle`, which never changes: answers, outcomes of jobs, logs
and metrics carry it. Code that only reports an error raises its branch with the code:

    raise Conflict("DependencyCycle", "the dataset would depend on itself", path=path)

A class of its own has an error that our code catches, or that is a family; its name is its code. It
is declared beside the code that raises it. Only `odf_node/service/errors.py` maps errors to HTTP
statuses and close codes.

    NodeError
    ├── BadInput            the input is not what it must be
    │   ├── Malformed…      bytes or text that cannot be read at all
    │   ├── ChainRuleBroken a block that may not follow this chain  (odf_protocol/chain)
    │   └── …
    ├── NotFound            something named is absent (or may not be seen)
    ├── Conflict            another client or process was first
    ├── Refused             the actor may not do this
    ├── LimitExceeded       a configured limit; names the limit and its value
    ├── Damaged             stored or received bytes do not match their hash
    ├── Unavailable         a part of the node is unavailable; a retry may succeed later
    ├── RemoteFailed        another party, or the network between, failed
    └── NodeFault           the node is not configured or built correctly

A failed job reports to its submitter the code of its error and the name of the branch, which is the
direct subclass of `NodeError`: the submitter's process need not know every concrete error.
"""

from __future__ import annotations

from typing import Any, overload


class NodeError(Exception):
    """An error that the node reports on purpose. `str()` is one sentence for a person.

    `code` names the error for programs; without one it is the name of the class. `facts` are the
    values that a program needs, JSON-compatible.
    """

    @overload
    def __init__(self, message: str, /, **facts: object) -> None: ...
    @overload
    def __init__(self, code: str, message: str, /, **facts: object) -> None: ...
    def __init__(self, words: str, message: str | None = None, /, **facts: object) -> None:
        super().__init__(words if message is None else message)
        self.code = type(self).__name__ if message is None else words
        self.facts: dict[str, object] = {k: v for k, v in facts.items() if v is not None}

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code

    def __reduce__(self) -> tuple[Any, ...]:
        # as it is, whatever its class needs to make one: errors cross the borders of processes
        return _as_it_was, (type(self), self.args), self.__dict__


class BadInput(NodeError):
    """The input is not what it must be; nothing was changed."""


class NotFound(NodeError):
    """Something named is absent, or may not be seen by this actor."""


class Conflict(NodeError):
    """Another client or process was first, or two things claim the same name or position."""


class Refused(NodeError):
    """The actor may not do this."""


class LimitExceeded(NodeError):
    """A configured limit was reached; the facts name it."""


class Damaged(NodeError):
    """Stored or received bytes do not match their hash."""


class Unavailable(NodeError):
    """A part of the node does not respond at present; the same request may succeed later."""


class RemoteFailed(NodeError):
    """Another party, or the network between, failed; nothing was changed here."""


class NodeFault(NodeError):
    """The node itself is not set up correctly; its administrator has to act."""


def _as_it_was(kind: type[NodeError], args: tuple[Any, ...]) -> NodeError:
    return kind.__new__(kind, *args)


def code_of(error: BaseException) -> str:
    """Return the code of an error; of one that is none of ours, the name of its class."""
    return error.code if isinstance(error, NodeError) else type(error).__name__


def branch_of(kind: type[NodeError]) -> str:
    """Return the name of the branch that an error class belongs to; empty if it has none."""
    for ancestor in kind.__mro__:
        if ancestor.__module__ == __name__ and ancestor is not NodeError:
            return ancestor.__name__
    return ""
