"""The base classes of all errors that the node reports.

Concrete errors are declared beside the code that raises them, and carry the facts that a caller
needs to act. Only `odf_node/service/errors.py` maps errors to HTTP statuses and close codes.

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

A failed job reports to its submitter the class name of its error and the name of the branch, which
is the direct subclass of `NodeError`: the submitter's process need not know every concrete error.
"""

from __future__ import annotations


class NodeError(Exception):
    """An error that the node reports on purpose. `str()` is one sentence for a person.

    `facts` are the values that a program needs, JSON-compatible.
    """

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts: dict[str, object] = {k: v for k, v in facts.items() if v is not None}

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


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


def branch_of(kind: type[NodeError]) -> str:
    """Return the name of the branch that an error class belongs to; empty if it has none."""
    for ancestor in kind.__mro__:
        if ancestor.__module__ == __name__ and ancestor is not NodeError:
            return ancestor.__name__
    return ""
