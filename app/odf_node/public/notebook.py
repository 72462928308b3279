"""Datasets in a notebook: the card of a dataset, and the list that a search found.

A card is HTML without scripts. What strangers wrote is escaped in it; colours are those of the
notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import NodeError

from ..client.nodes.limits import age_text, one_line, size_text
from ..service.pages.frame.cells import cell_text, column_lines, kinds_in
from ..service.pages.frame.pictures import (
    WIDTH,
    Figure,
    SampledRows,
    picture,
)

ROWS, COLUMNS = 5, 20
SAMPLE_ROWS, SAMPLE_CELLS = 500, 10_000
"""Most rows and values that are read for a card: the newest ones."""
DRAWN = {
    "area": 'fill="#3f7cac" stroke="none"',
    "line": 'fill="none" stroke="#3f7cac" stroke-width="1.5"',
    "map": 'fill="none" stroke="#3f7cac" stroke-width="4" stroke-linecap="round"',
}
"""Attributes of what is drawn, by the kind of figure; notebooks may drop style sheets."""


def card_html(dataset: Any) -> str:
    """Return the card of a `Dataset`, a class that knows this module: name, sentence, license,
    freshness, columns, newest rows, picture. If it cannot be read, the card says why."""
    try:
        facts = dataset.info
        sample = _sample(dataset, facts)
    except NodeError as error:
        return f"<p><code>{escape(repr(dataset))}</code>: {escape(one_line(error.message))}</p>"
    return "".join(_card(repr(dataset), facts, sample))


def list_html(told: Iterable[Mapping[str, Any]]) -> str:
    """Return datasets as a table."""
    lines = [[one["alias"], one.get("description"), *_told(one)] for one in told]
    return _table(("dataset", "description", "rows", "size", "license", "changed"), lines)


def _sample(dataset: Any, facts: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the newest rows as they were recorded, column by column, as JSON values."""
    from odf_storage.datasets.read.records import DataFormat, shaped

    fields = _fields(facts)
    if not fields or not facts["records"]:
        return {}
    most = max(ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // len(fields)))
    skip = max(0, int(facts["records"]) - most)
    table = dataset.arrow(changelog=True, skip=skip, limit=most)
    found: dict[str, list[Any]] = shaped(table, DataFormat.SOA)
    return found


def _fields(facts: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = (facts.get("schema") or {}).get("fields", ())
    return found


def _card(
    name: str, facts: Mapping[str, Any], sample: Mapping[str, Sequence[Any]]
) -> Iterator[str]:
    yield f"<h3>{escape(str(facts.get('alias') or name))}</h3>"
    if facts.get("description"):
        yield f"<p>{escape(one_line(str(facts['description'])))}</p>"
    rows, size, license_, age = _told(facts)
    told = [f"{rows} rows", size, license_, f"changed {age}" if age else ""]
    yield f"<p>{escape(' · '.join(each for each in told if each))}</p>"
    fields = _fields(facts)
    lines = [line for one in fields for line in column_lines(one["name"], one["type"])]
    schema = _table(("column", "type"), lines)
    yield f"<details><summary>{len(fields)} columns</summary>{schema}</details>"
    vocab = Vocab()
    system = {vocab.operation_type_column, vocab.system_time_column}
    shown = [each for each in sample if each not in system][:COLUMNS]
    count = len(next(iter(sample.values()), ()))
    if count:
        newest = range(count - 1, max(-1, count - 1 - ROWS), -1)
        yield _table(shown, [[sample[each][at] for each in shown] for at in newest])
    system |= {vocab.offset_column}
    figures = picture(
        SampledRows(sample, kinds_in(fields)), vocab.event_time_column, frozenset(system)
    )
    yield from map(_drawn, figures)
    if figures:
        yield f"<p><small>Drawn from the newest {count:,} rows as they were recorded</small></p>"


def _told(one: Mapping[str, Any]) -> list[str]:
    """Return rows, size, license and age as texts."""
    license_ = one.get("license") or ""
    age = age_text(str(one.get("updatedAt", "")), datetime.now(UTC))
    return [
        f"{int(one.get('records') or 0):,}",
        size_text(int(one.get("dataSize") or 0)),
        str(license_.get("shortName", "") if isinstance(license_, Mapping) else license_),
        "just now" if age == "now" else f"{age} ago" if age else "",
    ]


def _table(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    def cells(kind: str, values: Sequence[Any]) -> str:
        texts = (escape(cell_text(each) or "") for each in values)
        return "".join(f'<{kind} style="text-align:left">{text}</{kind}>' for text in texts)

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def _drawn(figure: Figure) -> str:
    """Return a figure as SVG, with what it shows in words."""
    title = escape(f"{figure.title}: {figure.caption}")
    if figure.bars:
        return f"<p>{title}</p>" + _table((), [(label, f"{n:,}") for label, n, _ in figure.bars])
    grid = f'<path d="{figure.grid}" fill="none" stroke="currentColor" stroke-opacity=".2"/>'
    return (
        f'<p>{title}</p><svg width="{WIDTH + 8}" height="{figure.height + 8}" role="img" '
        f'viewBox="-4 -4 {WIDTH + 8} {figure.height + 8}"><title>{title}</title>'
        f'{grid if figure.grid else ""}<path d="{figure.path}" {DRAWN[figure.kind]}/></svg>'
    )
