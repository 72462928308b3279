"""Errors of a fetch show the source as it is written, never the values of its templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import FetchStep

HIDDEN = "…"
_OF_THE_SOURCE = frozenset({"host", "path", "scheme", "image", "reason", "given"})
"""Facts that are parts of an expanded text; a message repeats such a part only with its fact."""


def as_written(error: NodeError, step: FetchStep) -> NodeError:
    """Return the error without text that is not written in the source, since it may be part of a
    secret.

    For example, a slash in a password turns the password's first half into a port.
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
    """Remove values of templates from errors of a store. If an error is about a file, its `reason`
    concerns the file, not the source, and stays in the message."""
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
