"""Templates in source definitions: `${{ env.NAME || 'text' || 1 }}`.

The first alternative with a value is used; an empty variable is a value. Text is expanded once,
left to right: the value of a variable is never read as a template, and `||` inside quotes does not
separate alternatives. Source: ODF data plane notes, "Templates".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odf_protocol.errors import BadInput
from odf_protocol.templates import CLOSE, OPEN, templates

_ALTERNATIVE = re.compile(r"(?:'[^']*'|(?!\|\|).)*", re.DOTALL)
_VARIABLE = re.compile(r"env\.([A-Za-z0-9_-]+)")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_TEXT = re.compile(r"'([^']*)'")
MAX_CHARS = 1 << 20
"""Limit of the characters of an expanded text."""


class InvalidPattern(BadInput):
    """A template contains something other than a variable, a number or quoted text."""


class ValueNotFound(BadInput):
    """No alternative of a template has a value."""


class ExpansionTooLong(BadInput):
    """A template expands to a text longer than any source needs."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return the text with every template replaced by its value.

    Raises:
        InvalidPattern: the facts name the token.
        ValueNotFound: the facts name the inner text of the template.
    """
    parts, at = [], 0
    for begin, end in templates(text):
        parts += [text[at:begin], _value(text[begin + len(OPEN) : end].strip(), variables)]
        at = end + len(CLOSE)
    expanded = "".join([*parts, text[at:]])
    if len(expanded) > MAX_CHARS:
        raise ExpansionTooLong(f"a template expands to more than {MAX_CHARS} characters")
    return expanded


def _value(inner: str, variables: Mapping[str, str]) -> str:
    values = [_looked_up(token, variables) for token in [_parsed(t) for t in _tokens(inner)]]
    found = next((value for value in values if value is not None), None)
    if found is None:
        raise ValueNotFound(
            f"the template {inner!r} has no value: set one of its variables", detail=inner
        )
    return found


def _tokens(inner: str) -> list[str]:
    """Return the alternatives, trimmed; `||` inside quotes belongs to the text."""
    tokens, at = [], 0
    while True:
        match = _ALTERNATIVE.match(inner, at)
        end = match.end() if match else at
        tokens.append(inner[at:end].strip())
        if end >= len(inner):
            return tokens
        at = end + len("||")


def _parsed(token: str) -> tuple[str, str]:
    """Return (`env`, name) or (`text`, value)."""
    if variable := _VARIABLE.fullmatch(token):
        return "env", variable[1]
    if _NUMBER.fullmatch(token):
        return "text", token
    if text := _TEXT.fullmatch(token):
        return "text", text[1].strip()
    raise InvalidPattern(
        f"{token!r} is no variable (env.NAME), number or quoted text", detail=token
    )


def _looked_up(token: tuple[str, str], variables: Mapping[str, str]) -> str | None:
    kind, value = token
    return variables.get(value) if kind == "env" else value
