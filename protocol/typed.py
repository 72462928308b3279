"""Values of our types out of JSON and out of plain values, from any number of threads.

msgspec looks into a class when it meets it for the first time. A second thread that meets the
class meanwhile is given the half of it that is there, and the whole process ends with a
segmentation fault (0.22.0; a node that is asked twice at once right after its start). So classes
are met one at a time: everybody decodes through here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
DecHook = Callable[[type, Any], Any] | None

_meeting = threading.Lock()
_known: set[Any] = set()


def decode_json(text: str | bytes | msgspec.Raw, kind: type[T], *, dec_hook: DecHook = None) -> T:
    """A value of `kind` from JSON. Raises `msgspec.DecodeError`, also for what nests too deeply,
    `UnicodeDecodeError`."""
    _meet(kind)
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=dec_hook)
    except RecursionError:
        raise msgspec.DecodeError("JSON nests too deeply") from None


def convert(value: Any, kind: type[T], *, dec_hook: DecHook = None) -> T:
    """A value of `kind` from dicts, lists, texts and numbers. Raises `msgspec.ValidationError`."""
    _meet(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook)


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder of `kind`, for types made at run time as well: it is not remembered here."""
    with _meeting:
        return msgspec.json.Decoder(kind)


def _meet(kind: Any) -> None:
    if kind not in _known:
        json_decoder(kind)  # looks into all classes that can occur
        _known.add(kind)
