"""What a proposal shows of a file is what its post stores, and nothing differs in silence.

Files are random, and written by several libraries. `ODF_TEST_PREVIEWS` is how many are tried;
`ODF_TEST_PREVIEW_FOLDER` has further ones, which `tests/support/more_writers.py` wrote.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from more_writers import file_of, written
from random_files import RandomFile, random_file
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import sample_of
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.stages.preview import preview

FILES = int(os.environ.get("ODF_TEST_PREVIEWS", "150"))
FOLDER = os.environ.get("ODF_TEST_PREVIEW_FOLDER")
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
        case None:
            return None
        case time():
            return value.isoformat()
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


def means_the_same(given: Any, stored: Any, *, blank: bool) -> bool:
    """Whether a stored value says what the writer was given; an empty text may be no value only
    where the format has no other form for it, which is `blank`. Some writers keep 15 digits."""
    given, stored = plain(given), plain(stored)
    nothing = (None, {}, "") if blank else (None, {})
    if given == stored or (given in nothing and stored in nothing):
        return True
    if isinstance(stored, str) and isinstance(given, dict | list):
        try:
            return json.loads(json.dumps(given, default=str)) == json.loads(stored)
        except ValueError:
            return False
    try:
        one, other = Decimal(str(given).strip()), Decimal(str(stored).strip())
    except InvalidOperation:
        one = other = Decimal("nan")
    if not one.is_nan() and (one == other or math.isclose(float(one), float(other), rel_tol=1e-13)):
        return not (isinstance(given, str) and str(given).strip().lstrip("-").startswith("00"))
    try:
        return datetime.fromisoformat(str(given)).astimezone(UTC) == datetime.fromisoformat(
            str(stored)
        ).astimezone(UTC)
    except ValueError:
        return str(given).strip().lower() == str(stored).strip().lower() in ("true", "false")


def _without_blank_end(made: RandomFile) -> dict[str, list[Any]]:
    """The rows up to the last one with a value: a workbook has no others."""
    full = [at for at, row in enumerate(zip(*made.columns.values(), strict=True)) if any(
        one not in (None, "") for one in row)]  # fmt: skip
    return {name: values[: max(full, default=-1) + 1] for name, values in made.columns.items()}


def silent(made: RandomFile, proposal: Proposal, rows: pa.Table) -> list[str]:
    """Differences between file and rows that no remark names."""
    said = "\n".join((*proposal.notes, *proposal.questions))
    given = _without_blank_end(made) if made.name.endswith(".xlsx") else made.columns
    if len(rows) != len(next(iter(given.values()))):
        told = (
            "left out",
            "repeat",
            "the first line is taken",
            "no line names",
            "but for",
            "blank lines",
            "without values are no rows",
            "after the last row",
        )
        return [] if any(text in said for text in told) else ["another number of rows"]
    if "cells are formulas" in said:  # as "=1+1" is to one of the writers
        return []
    found = []
    blank = made.name.endswith((".csv", ".xlsx"))
    columns = {column.name: column for column in proposal.columns}
    if len(given) > len(columns):  # records of JSON may lack a field everywhere
        given = {
            name: values for name, values in given.items() if any(v is not None for v in values)
        }
    if len(given) != len(columns):
        return [] if proposal.questions else ["another number of columns"]
    pairs = zip(proposal.columns, given.items(), strict=True)
    if columns.keys() == given.keys():
        pairs = ((columns[name], (name, values)) for name, values in given.items())
    for column, (name, values) in pairs:
        stored = rows.column(column.name).to_pylist()
        for one, kept in zip(values, stored, strict=True):
            told = f"{column.name}: " in said or f"`{column.name}`" in said
            if not means_the_same(one, kept, blank=blank) and not told:
                found.append(f"{name}: {one!r} is stored as {kept!r}")
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


def compared(files: Iterable[RandomFile], folder: Path) -> dict[str, str]:
    """What differs in silence, by the file."""
    stores, bad = throwaway_stores(), {}
    for number, made in enumerate(files, 1):
        difference = tried(made, stores, number, folder / str(number))
        if difference is not None:
            bad[f"{number} {made.writer} {made.data[:300]!r}"] = difference
    return bad


@pytest.mark.parametrize("start", range(0, FILES, PIECE))
def test_what_is_shown_of_a_file_is_what_its_post_stores(start: int, tmp_path: Path) -> None:
    seeds = range(start, min(start + PIECE, FILES))
    files = (file_of(seed) if seed % 2 else random_file(seed) for seed in seeds)
    assert not compared(filter(None, files), tmp_path)


@pytest.mark.skipif(FOLDER is None, reason="no folder of files is told")
@pytest.mark.timeout(3600)
def test_what_is_shown_of_files_of_other_environments_is_what_their_posts_store(
    tmp_path: Path,
) -> None:
    files, bad = written(Path(str(FOLDER))), {}
    while piece := list(islice(files, PIECE)):
        bad |= compared(piece, tmp_path / str(len(bad)))
    assert not bad
