"""Helpers of commands that publish files: read a file, add options, show a proposal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from odf_node.protocol.codec.manifests import manifest, to_data

from ..client.text import in_columns, one_line
from ..proposal.columns import DateOrder
from ..proposal.proposal import MERGES, Choices, Proposal, propose
from ..proposal.sample import (
    EVERYTHING_FIRST,
    SAMPLE_BYTES,
    Format,
    Sample,
    UnknownFormat,
    sample_of,
)

F = TypeVar("F", bound=Callable[..., Any])
ARCHIVE_BYTES = 256 << 20
"""Limit of the size of a zip archive, in bytes. Archives are read whole, as their table of contents
is at the end."""
SHOWN_CHARS = 40
_FORMATS = {form.name.lower(): form for form in Format}


def choice_options(command: F) -> F:
    """Add the options by which a person changes a proposal."""
    for option in (
        click.option("--look", "mib", type=click.IntRange(1, 64), default=SAMPLE_BYTES >> 20,
                     show_default=True, metavar="MIB", help="How much of FILE is looked at."),
        click.option("--description", metavar="TEXT", help="What the dataset is about."),
        click.option("--no-header", is_flag=True, help="The first line holds values."),
        click.option("--separator", metavar="CHAR", help="What separates fields; `tab` is one."),
        click.option("--date-order", type=click.Choice([one.value for one in DateOrder]),
                     help="Whether 01/02/2025 is in February (dmy) or January (mdy)."),
        click.option("--merge", type=click.Choice(MERGES), help="How later posts join the rows."),
        click.option("--no-event-time", is_flag=True, help="Rows get the time of their post."),
        click.option("--event-time", metavar="COLUMN", help="When a row happened."),
        click.option("--no-key", is_flag=True, help="Each post adds its rows."),
        click.option("--key", multiple=True, metavar="COLUMN", help="Tells rows apart."),
        click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="Repeatable."),
        click.option("--format", "form", type=click.Choice(sorted(_FORMATS))),
    ):  # fmt: skip
        command = option(command)
    return command


def looked_at(
    file: Path,
    name: str | None,
    *,
    mib: int,
    description: str | None,
    no_header: bool,
    separator: str | None,
    date_order: str | None,
    merge: str | None,
    no_event_time: bool,
    event_time: str | None,
    no_key: bool,
    key: tuple[str, ...],
    types: tuple[str, ...],
    form: str | None,
) -> Proposal:
    """Return the proposal for a file. Raises the same errors as `sample_of` and `propose`.

    Raises:
        click.UsageError: the options contradict each other.
    """
    if (no_key and key) or (no_event_time and event_time):
        raise click.UsageError("a column and none of them do not go together")
    choices = Choices(
        name=name,
        types=dict(map(_typed, types)),
        key=() if no_key else key or None,
        event_time="" if no_event_time else event_time,
        merge=merge,
        date_order=None if date_order is None else DateOrder(date_order),
        separator="\t" if separator == "tab" else separator,
        header=False if no_header else None,
        description=description,
    )
    return propose(_sample(file, mib << 20, _FORMATS.get(form or "")), choices)


def proposal_data(proposal: Proposal) -> dict[str, Any]:
    """Return the proposal as JSON-compatible data: the manifest, and facts about the sample."""
    return {
        "name": proposal.name,
        "format": proposal.format.value,
        "rowsLookedAt": proposal.looked_at,
        "isWhole": proposal.is_whole,
        "key": list(proposal.key),
        "eventTime": proposal.event_time,
        "columns": [
            {"name": one.name, "type": to_data(one.type), "note": one.note or None}
            for one in proposal.columns
        ],
        "notes": list(proposal.notes),
        "questions": list(proposal.questions),
        "manifest": manifest("DatasetSnapshot", proposal.snapshot()),
    }


def proposal_text(proposal: Proposal, file: Path) -> str:
    """Return the proposal as text: columns with the first values, key, event time, remarks."""
    rows = "all rows" if proposal.is_whole else f"the first {proposal.looked_at:,} rows"
    seen = f"{rows} looked at" if proposal.looked_at else "not looked into"
    lines = [f"{file.name}: {proposal.format}, {len(proposal.columns)} columns, {seen}", ""]
    shown = [
        [f"  {one.name}", one.kind, *(_cell(value) for value in one.values[:3])]
        for one in proposal.columns
    ]
    width = max(map(len, shown), default=0)
    lines += _kept(shown, width)
    merge = str(type(proposal.merge).__struct_config__.tag)
    key = ", ".join(proposal.key) or "none"
    lines += ["", f"key: {key} ({merge})", f"event time: {proposal.event_time or 'of the post'}"]
    lines += [f"note: {note}" for note in proposal.notes]
    lines += [f"QUESTION: {question}" for question in proposal.questions]
    return "\n".join(
        [lines[0], *(line if line.startswith("  ") else one_line(line, 500) for line in lines[1:])]
    )


def _kept(rows: list[list[str]], width: int) -> list[str]:
    padded = [[*row, *[""] * (width - len(row))] for row in rows]
    return [f"  {line}" for line in in_columns(padded)]


def _cell(value: Any) -> str:
    return "" if value is None else one_line(str(value), SHOWN_CHARS)


def _typed(text: str) -> tuple[str, str]:
    name, mark, chosen = text.rpartition("=")
    if not mark or not name:
        raise click.UsageError(f"--type takes COLUMN=TYPE, not {text!r}")
    return name, chosen


def _sample(file: Path, most: int, form: Format | None) -> Sample:
    with file.open("rb") as stream:
        begin = stream.read(most)
        if begin.startswith(EVERYTHING_FIRST):
            begin += stream.read(ARCHIVE_BYTES - len(begin))
        size = os.fstat(stream.fileno()).st_size
    is_whole = size <= len(begin)
    if begin.startswith(EVERYTHING_FIRST) and not is_whole:
        raise UnknownFormat(
            f"{file} is an archive of more than {ARCHIVE_BYTES >> 20} MiB; unpack it"
        )
    return sample_of(file.name, begin, is_whole=is_whole, most=most, form=form)
