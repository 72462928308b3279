"""What errors of a fetch tell: the source as it is written, never what its templates stand for."""

from __future__ import annotations

import msgspec

from odf_node.protocol.errors import NodeError
from odf_node.protocol.metadata.sources import FetchStep

HIDDEN = "…"
_OF_THE_SOURCE = frozenset({"host", "path", "scheme", "image", "reason", "given"})
"""Facts that are parts of an expanded text: what a message tells of one is a fact, too."""


def as_written(error: NodeError, step: FetchStep) -> NodeError:
    """The error without what is not written in the source: it may be a part of a secret.

    A password with a slash in it, say, makes a port of its first half.
    """
    source = msgspec.json.encode(step).decode()
    if "${{" not in source:
        return error
    known, message, facts = source.lower(), error.message, dict(error.facts)
    for name in _OF_THE_SOURCE & facts.keys():
        part = str(facts[name])
        if part.lower() not in known:
            message = message.replace(repr(part), repr(HIDDEN)).replace(part, HIDDEN)
            del facts[name]
    return error if facts == error.facts else type(error)(message, **facts)
