"""The root of everything the node can say went wrong.

Leaves are declared beside the code that raises them; each carries the facts a caller
needs to act. HTTP statuses and close codes are decided once, in `app/service/errors.py`.

    NodeError
    ├── BadInput            what was handed in is not what it must be
    │   ├── Malformed…      bytes or text that cannot be read at all
    │   ├── ChainRuleBroken a block that may not follow this chain  (protocol/chain)
    │   └── …
    ├── NotFound            something named is absent (or may not be seen)
    ├── Conflict            somebody else was first
    ├── Refused             the actor may not do this
    ├── LimitExceeded       a configured limit; names the limit and its value
    ├── Damaged             stored or received bytes do not match their hash
    ├── Unavailable         a part of the node is away; later the same may work
    ├── RemoteFailed        another party, or the way to it, did not do its part
    └── NodeFault           the node is not set up or built as it must be

A job that fails tells its submitter the name of its error and of the branch: the submitter's
process knows the branches, not each leaf.
"""

from __future__ import annotations


class NodeError(Exception):
    """Anything the node reports on purpose. `str()` is one sentence for a person.

    `facts` are the values a program needs, JSON-compatible.
    """

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts: dict[str, object] = {k: v for k, v in facts.items() if v is not None}

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class BadInput(NodeError):
    """What was handed in is not what it must be; nothing was changed."""


class NotFound(NodeError):
    """Something named is absent, or may not be seen by this actor."""


class Conflict(NodeError):
    """Somebody else was first, or two things claim one place."""


class Refused(NodeError):
    """The actor may not do this."""


class LimitExceeded(NodeError):
    """A configured limit was reached; the facts name it."""


class Damaged(NodeError):
    """Stored or received bytes are not what their hash says."""


class Unavailable(NodeError):
    """A part of the node does not answer just now; the same request may work later."""


class RemoteFailed(NodeError):
    """Another party, or the way to it, did not do its part; nothing was changed here."""


class NodeFault(NodeError):
    """The node itself is not as it has to be; its administrator has to look."""


def branch_of(kind: type[NodeError]) -> str:
    """The name of the branch that an error class belongs to; empty for one of none."""
    for ancestor in kind.__mro__:
        if ancestor.__module__ == __name__ and ancestor is not NodeError:
            return ancestor.__name__
    return ""
