"""A CSV file gives the same rows, bad rows and error, however it is read: by either tokenizer, as a
whole or in splits.

`ODF_TEST_CSV_FILES` is how many files are read.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.workers.partitions.many import Many

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepCsv
from odf_protocol.multihash import Multihash
from odf_workers.jobs.ingest.source import Source, splits_of
from odf_workers.partitions.port import Here, Way
from odf_workers.plan.ingest import IngestPlan
from odf_workers.readers.formats import csv, csv_cuts, splits
from odf_workers.readers.values import csv_records as csv_arrow
from odf_workers.readers.values import rejected as chunks
from odf_workers.readers.values import text
from odf_workers.readers.values.csv_records import BOM
from odf_workers.slices.costs import SliceCut
from odf_workers.slices.schema import POSITION, Limits
from odf_workers.stages.read import PostRead
from odf_workers.stages.read_posts import read

FILES = int(os.environ.get("ODF_TEST_CSV_FILES", "120"))
pytestmark = pytest.mark.timeout(900 + FILES)
NOW = Instant.parse("2050-01-01T12:00:00Z")
COLUMNS = ("a STRING", "n BIGINT", "b STRING NOT NULL")
NAMES = ("a", "n", "b")
ALL_OURS = 1 << 60
"""A size that no file has, so that our tokenizer reads all."""


@dataclass(frozen=True)
class File:
    content: bytes
    step: ReadStepCsv
    most: int | None
    """Limit of the bad rows that are set aside; None if the first one fails the file."""


def file_made(chance: random.Random) -> File:
    odd = chance.choice([0, 0, 0.01, 0.03, 0.1])
    separator, end = chance.choice([",", ";"]), chance.choice(["\n", "\r\n"])
    declared, header = chance.random() < 0.8, chance.random() < 0.6
    rows = [
        separator.join(row_made(chance, odd, separator, end)) for _ in range(chance.randrange(60))
    ]
    if chance.random() < (0.95 if header else 0.1):
        rows.insert(0, separator.join(NAMES))
    content = (end.join(rows) + chance.choice(["", end])).encode("utf-8", "surrogateescape")
    content = chance.choice([b"", b"", b"", BOM, end.encode()]) + content
    if chance.random() < odd:
        at = chance.randrange(len(content) + 1)
        content = content[:at] + chance.choice([b"\xff", b'"', b"\r", b"\\"]) + content[at:]
    if chance.random() < 0.15:  # cut short
        content = content[: chance.randrange(len(content) + 1)]
    step = ReadStepCsv(
        header=header,
        separator=separator,
        escape=chance.choice([None, ""]),
        null_value=chance.choice([None, "bb"]),
        ddl_schema=COLUMNS if declared else None,
        infer_schema=None if declared else chance.choice([True, False]),
    )
    return File(content, step, chance.choice([None, 0, 2, 1000]))


def row_made(chance: random.Random, odd: float, separator: str, end: str) -> list[str]:
    def field(values: list[str], inner: list[str]) -> str:
        value = chance.choice(values)
        if chance.random() < 0.3:
            value = f'"{value}{chance.choice(inner)}"'
        if chance.random() < odd:
            value += chance.choice([" ", "x", '"', '"', "\\", "\r", "\udcff", separator])
        return value

    texts, inner = ["a", "bb", "é", "c d"], ["", '""', separator, end, " "]
    number = ["1", "22", "-3", ""] + (["x"] if chance.random() < odd else [])
    fields = [
        field(["", *texts], inner),
        field(number, [""]),
        field(texts if chance.random() > odd else ["", "b"], inner),
    ]
    return [] if chance.random() < odd else fields[: 2 if chance.random() < odd else 3]


def told(file: File, path: Path, way: Way) -> Any:
    """The rows and the bad rows of a file; or its error."""
    plan = IngestPlan(
        head=Multihash.parse("f1620" + "00" * 32),
        source_name="default",
        read=file.step,
        preprocess=None,
        merge=MergeStrategyAppend(),
        vocab=Vocab(),
        schema=None,
        prev_offset=None,
        watermark=None,
        source_state=None,
        has_history=False,
        system_time=NOW,
        source_event_time=NOW,
    )
    try:
        source = Source(content=path, step=file.step, sizes=(path.stat().st_size,))
        split, parts = splits_of(source, plan, way, Limits(), file.most)
        post = PostRead(plan=plan, split=split, cut=SliceCut(), max_bad_rows=file.most, passes=True)
        found = read(way, [post], [parts.splits])
        (post_rows,) = found.posts
        if post_rows.failure is not None:
            raise post_rows.failure.error()
    except NodeError as bad:
        return type(bad), bad.message, bad.facts
    rows = found.partitions.then(1, to_one, as_fact).facts()[0][0]
    rejected = [] if post_rows.rejected is None else post_rows.rejected.rows()
    return rows, rejected, post_rows.warnings


def to_one(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    return ((0, batch) for batch in batches)


def as_fact(_: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
    yield [row for batch in batches for row in batch.drop_columns(POSITION).to_pylist()]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be cut is cut."""
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 60)
    monkeypatch.setattr(csv_cuts, "SCAN_BYTES", 32)
    monkeypatch.setattr(csv_arrow, "BLOCK_BYTES", 64)
    monkeypatch.setattr(chunks, "BATCH_ROWS", 20)
    monkeypatch.setattr(text, "FEW", 0)


def test_random_files_are_the_same_by_both_tokenizers_and_in_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "input"
    cut, refused, aside = 0, 0, 0
    for seed in range(FILES):
        chance = random.Random(seed)
        file = file_made(chance)
        path.write_bytes(file.content)
        many = Many(chance.randrange(2, 6), chance)
        monkeypatch.setattr(csv, "FEW_BYTES", ALL_OURS)
        ours = told(file, path, Here())
        monkeypatch.setattr(csv, "FEW_BYTES", 0)
        for way in (Here(), many):
            assert told(file, path, way) == ours, f"file {seed}: {file}"
        cut += any(count > 1 for count in many.partitions)
        refused += isinstance(ours[0], type)
        aside += not isinstance(ours[0], type) and bool(ours[1])
    assert cut > FILES / 3, "files were cut"
    assert FILES / 10 < refused < FILES / 2
    assert aside > FILES / 20, "rows were set aside"
