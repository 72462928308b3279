"""What an engine says of a query that it refuses, and the same for the person who wrote the query.

A message of an engine begins with its own codes and lists every column of all inputs. The reader is
told first where the query is wrong, in which dataset, and what was probably meant. Code that judges
by the words of an engine (`never_runs.py`) has them unchanged, so both read them by these patterns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from ...slices.schema import SHOWN_NAMES
from .port import ONLY_QUERIES, without_place

NO_SQL = re.compile(r"\[PARSE_|SQL error: (?:Parser|Tokenizer)Error\(|" + re.escape(ONLY_QUERIES))
PARTS = r"(?:`(?:``|[^`])+`|\"(?:\"\"|[^\"])+\"|\w+)"
NO_COLUMN = (
    re.compile(rf"Schema error: No field named ({PARTS}(?:\.{PARTS})*)\."),
    re.compile(
        r"\[UNRESOLVED_COLUMN\.\w+\] A column, variable, or function parameter with name "
        rf"({PARTS}(?:\.{PARTS})*) cannot be resolved"
    ),
)
NO_TABLE = (
    re.compile(r"Error during planning: table '(?:datafusion\.public\.)?([^']+)' not found"),
    re.compile(rf"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view ({PARTS}(?:\.{PARTS})*) cannot"),
)
_NO_FUNCTION = (
    re.compile(r"Error during planning: Invalid function '([^']+)'"),
    re.compile(rf"\[UNRESOLVED_ROUTINE\] Cannot resolve routine ({PARTS}(?:\.{PARTS})*) "),
)
_PART = re.compile(PARTS)
_AMBIGUOUS = (
    re.compile(r"Schema error: Ambiguous reference to (?:un)?qualified field (\S+)"),
    re.compile(rf"\[AMBIGUOUS_REFERENCE\] Reference ({PARTS}(?:\.{PARTS})*) is ambiguous"),
)
_NEAR_FIELD = re.compile(r" Did you mean \S+\?\Z")
_NEAR_KEYWORD = re.compile(r"; (`[^`]+`: did you mean [A-Z]+\?)\Z")
"""The hints that the port puts behind the words of an engine that has none."""


def in_plain_words(message: str, whose: str, tables: Mapping[str, Sequence[str]]) -> str:
    """Return the message of an engine behind a sentence about the name that it does not know or
    finds twice, or about the text that is no SQL; other messages as they are. `tables` are the
    columns of each table that the query may name."""
    words = without_place(message)
    place = message.removesuffix(words)
    sentence = _sentence(words, tables)
    if sentence is None:
        return message
    words = _NEAR_KEYWORD.sub("", words)
    if "did you mean" in sentence:
        words = _NEAR_FIELD.sub("", words)
    return f"{place}{whose} {sentence} The engine says: {words}"


def _sentence(words: str, tables: Mapping[str, Sequence[str]]) -> str | None:
    if NO_SQL.match(words) and ONLY_QUERIES not in words:
        near = _NEAR_KEYWORD.search(words)
        return "is no SQL that the engine reads, from here on or shortly before" + (
            "." if near is None else f"; {near[1]}"
        )
    for patterns, sentence in (
        (NO_COLUMN, _no_column),
        (NO_TABLE, _no_table),
        (_AMBIGUOUS, _ambiguous),
    ):
        named = next((found[1] for each in patterns if (found := each.match(words))), None)
        if named is not None:
            return sentence([_plain(part) for part in _PART.findall(named)] or [named], tables)
    function = next((found[1] for each in _NO_FUNCTION if (found := each.match(words))), None)
    return None if function is None else f"calls {function}, which is no function of the engine."


def _no_column(parts: Sequence[str], tables: Mapping[str, Sequence[str]]) -> str:
    name, owners = parts[-1], tables
    if len(parts) > 1 and parts[-2] in tables:
        owners = {parts[-2]: tables[parts[-2]]}
    says = f"names a column `{'.'.join(parts)}` that is not there"
    every = [(column, table) for table, columns in owners.items() for column in columns]
    near = _nearest(name, [column for column, _ in every])
    if near is not None:
        table = next(table for column, table in every if column == near)
        return f"{says}: did you mean `{near}` of `{table}`?"
    return f"{says}; {_listed(owners)}."


def _no_table(parts: Sequence[str], tables: Mapping[str, Sequence[str]]) -> str:
    says = f"reads `{'.'.join(parts)}`, which is none of its inputs"
    near = _nearest(parts[-1], list(tables))
    if near is not None:
        return f"{says}: did you mean `{near}`?"
    return f"{says}: {', '.join(f'`{each}`' for each in tables)}."


def _ambiguous(parts: Sequence[str], tables: Mapping[str, Sequence[str]]) -> str:
    owners = [f"`{table}`" for table, columns in tables.items() if parts[-1] in columns]
    says = f"names a column `{'.'.join(parts)}` that is not the only one of this name"
    return f"{says}: say whose it is, of {' or '.join(owners)}." if owners else f"{says}."


def _listed(tables: Mapping[str, Sequence[str]]) -> str:
    said = []
    for table, columns in tables.items():
        more = len(columns) - SHOWN_NAMES
        shown = ", ".join(columns[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
        said.append(f"`{table}` has {shown}")
    return "; ".join(said)


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the name that was probably meant: it differs in case only, or is spelt alike."""
    plain = name.casefold()
    same = {each.casefold(): each for each in reversed(known)}
    near = [plain] if plain in same else get_close_matches(plain, list(same), n=1)
    return same[near[0]] if near else None


def _plain(part: str) -> str:
    if part[0] in '`"':
        return part[1:].removesuffix(part[0]).replace(part[0] * 2, part[0])
    return part
