"""Helpers of commands that publish files: read a file, add options, show a proposal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from odf_protocol.codec.manifests import manifest, to_data

from ..client.text import in_columns, one_line
from ..proposal.options import NONE, OPTIONS, Kind, Option, chosen
from ..proposal.proposal import Proposal, propose
from ..proposal.sample import SAMPLE_BYTES, Format, sample_of_file

F = TypeVar("F", bound=Callable[..., Any])
SHOWN_CHARS = 40
SHOWN_VALUES = 3
_FORMATS = {form.name.lower(): form for form in Format}


def choice_options(command: F) -> F:
    """Add the options by which a person changes a proposal."""
    look = click.option(
        "--look",
        "mib",
        type=click.IntRange(1, 64),
        default=SAMPLE_BYTES >> 20,
        show_default=True,
        metavar="MIB",
        help="How much of FILE is looked at.",
    )
    form = click.option("--format", "form", type=click.Choice(sorted(_FORMATS)))
    for option in (*reversed([each for one in OPTIONS for each in _OPTIONS[one.kind](one)]), form):
        command = option(command)
    return look(command)


def looked_at(
    file: Path, name: str | None, *, mib: int, form: str | None, **given: Any
) -> Proposal:
    """Return the proposal for a file. Raises the same errors as `sample_of_file` and `propose`.

    Raises:
        click.UsageError: the options contradict each other.
    """
    for option in OPTIONS:
        if option.kind in (Kind.COLUMN, Kind.COLUMNS) and given.pop(f"no_{option.name}"):
            if given[option.name]:
                raise click.UsageError(
                    f"a column and none of them do not go together: {option.flag}"
                )
            given[option.name] = NONE if option.kind is Kind.COLUMN else ()
        elif option.kind is not Kind.COLUMN and given[option.name] == ():
            given[option.name] = None
    choices = chosen(given, name=name)
    return propose(sample_of_file(file, most=mib << 20, form=_FORMATS.get(form or "")), choices)


def _one(option: Option, **more: Any) -> Any:
    return click.option(option.flag, option.name, help=option.about, **more)


def _column(option: Option, **more: Any) -> list[Any]:
    flag = option.flag.removeprefix("--")
    no = click.option(f"--no-{flag}", f"no_{option.name}", is_flag=True, help=option.without)
    return [_one(option, metavar="COLUMN", **more), no]


_OPTIONS: dict[Kind, Callable[[Option], list[Any]]] = {
    Kind.TEXT: lambda option: [_one(option, metavar="TEXT")],
    Kind.COUNT: lambda option: [_one(option, type=click.IntRange(0), metavar="N")],
    Kind.YES_NO: lambda option: [
        click.option(
            f"{option.flag}/--no-{option.flag[2:]}", option.name, default=None, help=option.about
        )
    ],
    Kind.CHOICE: lambda option: [_one(option, type=click.Choice(option.values))],
    Kind.WORDS: lambda option: [_one(option, multiple=True, metavar="WORD")],
    Kind.TYPES: lambda option: [_one(option, multiple=True, metavar="COLUMN=TYPE")],
    Kind.COLUMN: _column,
    Kind.COLUMNS: lambda option: _column(option, multiple=True),
}


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
            {
                "name": one.name,
                "type": to_data(one.type),
                "note": one.note or None,
                "firstValues": [value if value is None else str(value) for value in one.values],
            }
            for one in proposal.columns
        ],
        "notes": list(proposal.notes),
        "questions": list(proposal.questions),
        "manifest": manifest("DatasetSnapshot", proposal.snapshot()),
    }


def proposal_text(proposal: Proposal, file: Path) -> str:
    """Return the proposal as text: columns with the first values, key, event time, remarks."""
    rows = "all rows" if proposal.is_whole else f"the first {proposal.looked_at:,} rows"
    seen = f"{rows} looked at" if proposal.looked_at else "no row looked at"
    lines = [f"{file.name}: {proposal.format}, {len(proposal.columns)} columns, {seen}", ""]
    shown = [
        [f"  {one.name}", one.kind, *(_cell(value) for value in one.values[:SHOWN_VALUES])]
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
