"""Templates in definitions of sources: `${{ env.NAME || 'text' || 1 }}`, and where they stand.

`||` inside quotes does not separate alternatives. Source: ODF data plane notes, "Templates".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import BadInput

OPEN, CLOSE = "${{", "}}"
_ALTERNATIVE = re.compile(r"(?:'[^']*'|(?!\|\|).)*", re.DOTALL)
_VARIABLE = re.compile(r"env\.([A-Za-z0-9_-]+)")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_TEXT = re.compile(r"'([^']*)'")


def templates(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions where templates open and close; a single brace closes none.

    The scan ends where no brace follows, so it takes time in proportion to the text.
    """
    at = 0
    while (begin := text.find(OPEN, at)) >= 0 and (end := text.find("}", begin)) >= 0:
        closes = text.startswith(CLOSE, end)
        if closes:
            yield begin, end
        at = end + (len(CLOSE) if closes else 1)


def check_templates(text: str) -> None:
    """Raise `InvalidPattern` if an opening has no end, or a template is not well formed."""
    at = 0
    for begin, end in templates(text):
        _refuse_opening(text[at:begin])
        alternatives(text[begin + len(OPEN) : end].strip())
        at = end + len(CLOSE)
    _refuse_opening(text[at:])


def _refuse_opening(text: str) -> None:
    if OPEN in text:
        raise BadInput(
            "InvalidPattern",
            f"a template opens with `{OPEN}` and has no end `{CLOSE}`, so its text would be sent "
            "as it is",
            detail=text[text.index(OPEN) :][:100],
        )


def alternatives(inner: str) -> list[tuple[bool, str]]:
    """Return the alternatives of a template: whether each is a variable, and its name or text.

    Raises:
        InvalidPattern: the facts name the token.
    """
    return [_parsed(token) for token in _tokens(inner)]


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


def _parsed(token: str) -> tuple[bool, str]:
    if variable := _VARIABLE.fullmatch(token):
        return True, variable[1]
    if _NUMBER.fullmatch(token):
        return False, token
    if text := _TEXT.fullmatch(token):
        return False, text[1].strip()
    raise BadInput(
        "InvalidPattern",
        f"{token!r} is no variable (env.NAME), number or quoted text",
        detail=token,
    )
