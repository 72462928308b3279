"""What a proposal shows of a file is what its post stores, and nothing differs in silence.

Files are random, and written by several libraries. `ODF_TEST_PREVIEWS` is how many are tried.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_files import RandomFile, random_file
from throwaway import throwaway_stores

from odf_node.app.proposal.proposal import Proposal, propose
from odf_node.app.proposal.sample import sample_of
from odf_node.protocol.errors import NodeError
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.events import AddData
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.values import ObjectKind
from odf_node.workers.jobs.ingest.run import run_ingest
from odf_node.workers.stages.preview import preview
from tests.workers.datasets import bench_without_engine, created, upload

FILES = int(os.environ.get("ODF_TEST_PREVIEWS", "150"))
PIECE = 50
NOW = Instant.parse("2050-01-01T00:00:00Z")


def ingested(
    proposal: Proposal, data: bytes, stores: Stores, number: int, folder: Path
) -> pa.Table | None:
    """The rows that a worker stores of a file in a dataset as proposed; None without rows."""
    source, *more = proposal.snapshot().metadata
    dataset = created(stores, number=number, source=source, more=tuple(more))
    folder.mkdir(parents=True)
    bench = bench_without_engine(stores, folder)
    run_ingest(dataset, upload(stores, dataset, data), bench, now=NOW)
    tables = []
    for page in dataset.pages():
        for block in page:
            if isinstance(block.event, AddData) and block.event.new_data is not None:
                name = block.event.new_data.physical_hash
                with dataset.open_object(ObjectKind.DATA, name) as stream:
                    tables.append(pq.read_table(pa.py_buffer(stream.read())))
    return pa.concat_tables(tables) if tables else None


def plain(value: Any) -> Any:
    """A value such that equal meanings are equal."""
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case datetime():
            stamp = value if value.tzinfo else value.replace(tzinfo=UTC)
            return stamp.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case int() | float() | Decimal():
            number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            return "nan" if number.is_nan() else number.normalize()
        case dict():
            return {key: found for key, one in value.items() if (found := plain(one)) is not None}
        case list():
            return [plain(one) for one in value]
    return value


def means_the_same(given: Any, stored: Any) -> bool:
    """Whether a stored value says what the writer was given."""
    given, stored = plain(given), plain(stored)
    if given == stored or (given in (None, {}) and stored in (None, {})):
        return True
    try:
        one, other = Decimal(str(given).strip()), Decimal(str(stored).strip())
    except InvalidOperation:
        one = other = Decimal("nan")
    if not one.is_nan() and (one == other or math.isclose(float(one), float(other), rel_tol=1e-16)):
        return not (isinstance(given, str) and str(given).strip().lstrip("-").startswith("00"))
    try:
        return datetime.fromisoformat(str(given)).astimezone(UTC) == datetime.fromisoformat(
            str(stored)
        ).astimezone(UTC)
    except ValueError:
        return str(given).strip().lower() == str(stored).strip().lower() in ("true", "false")


def silent(made: RandomFile, proposal: Proposal, rows: pa.Table) -> list[str]:
    """Differences between file and rows that no remark names."""
    said = "\n".join((*proposal.notes, *proposal.questions))
    if len(rows) != len(next(iter(made.columns.values()))):
        told = (
            "left out",
            "repeat",
            "the first line is taken",
            "no line names",
            "but for",
            "blank lines",
        )
        return [] if any(text in said for text in told) else ["another number of rows"]
    found = []
    columns = {one.name: one for one in proposal.columns}
    given = made.columns
    if len(given) > len(columns):  # records of JSON may lack a field everywhere
        given = {
            name: values for name, values in given.items() if any(v is not None for v in values)
        }
    pairs = zip(proposal.columns, given.items(), strict=True)
    if columns.keys() == given.keys():
        pairs = ((columns[name], (name, values)) for name, values in given.items())
    for column, (name, values) in pairs:
        stored = rows.column(column.name).to_pylist()
        for given, kept in zip(values, stored, strict=True):
            told = f"{column.name}: " in said or f"`{column.name}`" in said
            if not means_the_same(given, kept) and not told:
                found.append(f"{name}: {given!r} is stored as {kept!r}")
                break
    return found


def tried(made: RandomFile, stores: Stores, number: int, folder: Path) -> str | None:
    """None if nothing differs in silence; else what does."""
    try:
        proposal = propose(sample_of(made.name, made.data, is_whole=True), now=NOW)
    except NodeError:
        return None  # refused with a reason
    seen = preview(proposal.snapshot(), made.data, now=NOW)
    stored = ingested(proposal, made.data, stores, number, folder)
    assert seen is not None
    if seen.stored.num_rows and not seen.stored.equals(stored):
        return f"the preview is not the dataset: {seen.stored} {stored}"
    shown = [column.values for column in proposal.columns]
    kept = [tuple(seen.read.column(one.name).to_pylist()[:5]) for one in proposal.columns]
    if repr(shown) != repr(kept):
        return f"what is shown is not stored: {shown} {kept}"
    return "; ".join(silent(made, proposal, seen.read)) or None


@pytest.mark.parametrize("start", range(0, FILES, PIECE))
def test_what_is_shown_of_a_file_is_what_its_post_stores(start: int, tmp_path: Path) -> None:
    bad = {}
    stores = throwaway_stores()
    for number, seed in enumerate(range(start, min(start + PIECE, FILES)), 1):
        made = random_file(seed)
        if (difference := tried(made, stores, number, tmp_path / str(seed))) is not None:
            bad[seed] = f"{made.writer} {made.data[:300]!r}: {difference}"
    assert not bad
