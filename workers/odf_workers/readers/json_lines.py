"""Lines of JSON: each line that is not blank is one value, whatever the other lines are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from ..runtime.content import Content, opened
from ..slices.frame import BadRow, Limits
from .csv_records import BOM
from .json_scan import DECODER, SHOWN_TEXT, Value

BLANKS = b" \t\r\n"


def numbered_lines(content: Content, limits: Limits) -> Iterator[Value]:
    """Yield lines that are not blank, not decoded, with their numbers from 1. Raises
    `InputTooLarge`."""
    with opened(content) as stream:
        for number in count(1):
            line = stream.readline(limits.row_bytes + 1)
            if len(line) > limits.row_bytes:
                raise limits.row_too_large(number)
            if not line:
                return
            if text := (line if number > 1 else line.removeprefix(BOM)).strip(BLANKS):
                yield Value(number, text, len(text))


def value_of(number: int, line: bytes) -> Any:
    """Decode the value of a line without blanks around it. Raises `BadRow`."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise BadRow("the text is not UTF-8", line=number) from None
    try:
        value, end = DECODER.raw_decode(text)
    except RecursionError:
        raise BadRow("the value is nested too deeply", line=number) from None
    except ValueError as bad:
        reason = bad.msg if isinstance(bad, json.JSONDecodeError) else str(bad)
        shown = text[:SHOWN_TEXT]
        raise BadRow(f"the line is not JSON ({reason})", line=number, value=shown) from None
    if end < len(text):
        shown = text[end : end + SHOWN_TEXT].strip()
        raise BadRow("a line holds one record; text follows it", line=number, value=shown)
    return value
