"""What errors of a fetch tell: the source as it is written, never what its templates stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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


@contextmanager
def saying(hidden: Sequence[str], *, is_template: bool) -> Iterator[None]:
    """Errors of a store, without texts that templates stand for. The `reason` of one about a file
    is of the file, not of the source: in the message it stays."""
    try:
        yield
    except NodeError as bad:
        if not is_template:
            raise
        if "key" in bad.facts:
            bad.facts.pop("reason", None)
        bad.facts = {name: _without(hidden, value) for name, value in bad.facts.items()}
        bad.args = tuple(_without(hidden, each) for each in bad.args)
        raise


def _without(hidden: Sequence[str], value: object) -> object:
    if isinstance(value, str):
        for text in hidden:
            value = value.replace(text, HIDDEN)
    return value
