"""Decodes JSON and plain values to typed values, safely in any number of threads.

msgspec inspects a class when it first decodes it. If a second thread uses the class meanwhile, it
gets the unfinished result, and the process ends with a segmentation fault (version 0.22.0; it
happens if a node gets two requests at once right after its start). So this module inspects
classes one at a time, and all code decodes through it.
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
    """Decode JSON to a value of `kind`. Raises `UnicodeDecodeError`, and `msgspec.DecodeError`,
    also if the JSON is nested too deeply."""
    _meet(kind)
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=dec_hook)
    except RecursionError:
        raise msgspec.DecodeError("JSON nests too deeply") from None


def convert(value: Any, kind: type[T], *, dec_hook: DecHook = None, strict: bool = True) -> T:
    """Convert dicts, lists, texts and numbers to `kind`; if not `strict`, texts may be numbers.
    Raises `msgspec.ValidationError`."""
    _meet(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook, strict=strict)


def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return a decoder for `kind`, which may be a type made at run time: nothing is cached."""
    with _meeting:
        return msgspec.json.Decoder(kind)


def _meet(kind: Any) -> None:
    if kind not in _known:
        json_decoder(kind)  # inspects all classes that can occur in the value
        _known.add(kind)
