"""Limit the length and nesting of a query, counted in its text before an engine plans it.

Planners recurse into nested expressions and compare the items of a list with each other, so even a
short text can take much time or overflow the stack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.metadata.transforms import SqlQueryStep

from .port import InvalidQuery

_TEXTS = re.compile(
    r"(?s)'(?:''|[^'])*'|\"(?:\"\"|[^\"])*\"|`(?:``|[^`])*`|--[^\n]*|/\*.*?(?:\*/|\Z)"
)
_TERMS = re.compile(
    r"(?i)[-+*/%|&^~<>=!:]+|\b(?:and|or|not|case|when|is|in|like|ilike|between|union|except|"
    r"intersect|join|from|lateral|select|over|interval|collate|at)\b|\.(?!\d)|[\[{(]"
)
"""The tokens that join two expressions or plans into one, or wrap one."""
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySize:
    """Limits of the queries of a transform: bytes and terms of all, nesting of brackets of each."""

    bytes: int = 256 << 10
    terms: int = 3_000
    depth: int = 100


def check_size(
    steps: Sequence[SqlQueryStep], most: QuerySize, *, setting: str = "ODF_WORKER_MAX_QUERY_BYTES"
) -> None:
    """Raise `InvalidQuery` if a limit of `most` is exceeded; `setting` names that of the bytes."""
    found = sum(len(step.query.encode("utf-8", "surrogatepass")) for step in steps)
    _check(found, most.bytes, f"bytes long; {most.bytes} are possible ({setting})", setting)
    codes = [_TEXTS.sub(" ", step.query) for step in steps]
    terms = sum(1 for code in codes for _ in _TERMS.finditer(code))
    _check(terms, most.terms, f"terms long; {most.terms} are possible")
    deepest = max(map(_depth, codes), default=0)
    _check(deepest, most.depth, f"brackets deep; {most.depth} are possible")


def _check(found: int, most: int, what: str, setting: str | None = None) -> None:
    if found > most:
        raise InvalidQuery(f"the query is {found} {what}", setting=setting)


def _depth(code: str) -> int:
    deepest = depth = 0
    for sign in code:
        if sign in _OPEN:
            depth += 1
            deepest = max(deepest, depth)
        elif sign in _CLOSE:
            depth -= 1
    return deepest
