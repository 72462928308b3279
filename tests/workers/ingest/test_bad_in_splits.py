"""What is wrong with a file is told as it is in the file, in whatever split of it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, upload
from tests.workers.partitions.many import Many
from throwaway import throwaway_stores

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    ReadStep,
)
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest import run
from odf_workers.jobs.ingest.run import prepare_post, push_extras, run_ingest, write_post
from odf_workers.partitions.port import Here, Way
from odf_workers.plan.ingest import plan_ingest
from odf_workers.readers.formats import csv_cuts, splits
from odf_workers.readers.values.rejected import TooManyBadRows
from odf_workers.slices.schema import BadRow, InputTooLarge, Limits

NOW = Instant.parse("2050-01-01T12:00:00Z")
CSV = {"kind": "Csv", "header": True, "schema": ["event_time TIMESTAMP", "n BIGINT"]}
UNDECLARED = {"kind": "Csv", "header": True}
NDJSON = {"kind": "NdJson", "schema": CSV["schema"]}
APPEND = MergeStrategyAppend()
HEAD = "event_time,n\n"
ROWS = [f"2020-01-01T00:00:{n % 60:02},{n}\n" for n in range(400)]


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SMALLEST_SPLIT_BYTES", 1000)
    monkeypatch.setattr(splits, "SCAN_BYTES", 128)
    monkeypatch.setattr(csv_cuts, "SCAN_BYTES", 128)


def ingested(
    body: str,
    way: Way,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: dict[str, Any] = CSV,
    merge: MergeStrategy = APPEND,
    **asked: Any,
) -> tuple[Any, bytes | None]:
    """The receipt, and the rows that were set aside; or the error, once nothing is committed."""
    content = body.encode("utf-8", "surrogateescape")
    monkeypatch.setattr(run, "way_of", lambda *_: way)
    folder.mkdir()
    stores = throwaway_stores()
    bench = bench_without_engine(stores, folder, limits=Limits(row_bytes=2000))
    dataset = created(stores, read=from_data(read, ReadStep), merge=merge)
    payload = msgspec.structs.replace(upload(stores, dataset, content), **asked)
    head = dataset.head()
    if not asked:
        try:
            run_ingest(dataset, payload, bench, now=NOW)
        except NodeError as bad:
            assert dataset.head() == head
            stored = {found.key.kind for found in stores.objects.list(dataset.id)}
            assert ObjectKind.DATA not in stored
            return bad, None
        raise AssertionError("the file was taken")
    path = folder / "body"
    path.write_bytes(content)
    state = dataset.state()
    plan = plan_ingest(state, payload, now=NOW)
    extras = push_extras(plan, payload, 10)
    post = prepare_post(dataset, plan, path, bench, folder, extras)
    batch = write_post(dataset, state, post, bench, folder)
    rejected = batch.outcomes[0].rejected
    assert rejected is not None
    return batch.receipts[0], rejected.document()


def both(
    body: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any
) -> list[tuple[Any, bytes | None]]:
    """In one partition, and in many."""
    many = Many(4, random.Random(1))
    ways: tuple[Way, Way] = (Here(), many)
    found = [
        ingested(body, way, folder / str(number), monkeypatch, **asked)
        for number, way in enumerate(ways)
    ]
    assert many.partitions[0] > 3
    return found


def test_a_bad_row_of_the_last_split_fails_the_file_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*ROWS[:390], "2020-01-01T00:00:00,x\n", *ROWS[390:]]
    for bad, _ in both(HEAD + "".join(rows), tmp_path, monkeypatch):
        assert isinstance(bad, BadRow)
        assert (bad.facts["line"], bad.facts["column"], bad.facts["value"]) == (392, "n", "x")


def test_a_time_out_of_range_fails_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*ROWS[:390], "20201-01-01T00:00:00,1\n", *ROWS[390:]]
    one, other = both(HEAD + "".join(rows), tmp_path, monkeypatch)
    assert (str(one[0]), one[0].facts) == (str(other[0]), other[0].facts)


def test_a_record_that_is_too_long_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*ROWS[:390], f"2020-01-01T00:00:00,{'1' * 3000}\n", *ROWS[390:]]
    for bad, _ in both(HEAD + "".join(rows), tmp_path, monkeypatch):
        assert isinstance(bad, InputTooLarge)
        assert "line 392" in str(bad)


def test_all_good_rows_are_taken_where_bad_ones_may_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(ROWS)
    for at in (3, 200, 390):
        rows[at] = "2020-01-01T00:00:00,x\n"
    found = both(HEAD + "".join(rows), tmp_path, monkeypatch, on_bad_rows="quarantine")
    for receipt, _ in found:
        assert (receipt.rows_added, receipt.rows_rejected) == (397, 3)
    one, other = (told(document) for _, document in found)
    assert [(each["row"], each["line"]) for each in other] == [(4, 5), (201, 202), (391, 392)]
    assert one == other
    assert found[0][0].logical_hash == found[1][0].logical_hash


def told(document: bytes | None) -> list[dict[str, Any]]:
    assert document is not None
    return [msgspec.json.decode(each) for each in gzip.decompress(document).splitlines()]


def bad_times(kind: str) -> tuple[dict[str, Any], list[str]]:
    """A read step, and lines of rows of which those at 20 and 390 have no event time."""
    if kind == "Csv":
        rows = [HEAD, *ROWS]
        rows[21], rows[391] = "2020-13-01,20\n", "2020-14-01,390\n"
        return UNDECLARED, rows
    rows = [f'{{"event_time": {n}, "n": {n}}}\n' for n in range(400)]
    rows[20], rows[390] = ('{"event_time": 9e15, "n": 1}\n' for _ in range(2))
    return NDJSON, rows


@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
def test_a_bad_event_time_fails_the_file_by_its_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, rows = bad_times(kind)
    head = kind == "Csv"
    del rows[20 + head]
    found = both("".join(rows), tmp_path, monkeypatch, read=read)
    for bad, _ in found:
        assert isinstance(bad, BadRow)
        assert (bad.facts["line"], bad.facts["column"]) == (390 + head, "event_time")
    assert str(found[0][0]) == str(found[1][0])


@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
def test_bad_event_times_are_set_aside_with_their_lines_among_other_bad_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, rows = bad_times(kind)
    head = kind == "Csv"
    rows[10 + head] = "1,2,3\n"
    rows[389 + head] = "1,2,3\n"
    rows[100 + head] = "\n" + rows[100 + head]
    found = both("".join(rows), tmp_path, monkeypatch, read=read, on_bad_rows="quarantine")
    one, other = (told(document) for _, document in found)
    assert [(each["row"], each["line"] - head, each["column"]) for each in one] == [
        (11, 11, None),
        (21, 21, "event_time"),
        (390, 391, None),
        (391, 392, "event_time"),
    ]
    assert one == other


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        ('{"op": 1, "n": 5}', "takes back a row that does not stand"),
        ('{"op": 2, "n": 5}', "is one half of a correction without the other"),
        ('{"op": 9, "n": 5}', "has no known operation code"),
    ],
)
def test_a_row_of_a_changelog_is_numbered_among_those_set_aside(
    last: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f'{{"op": 0, "n": {n}}}\n' for n in range(100, 390)]
    for at in (0, 1, 250):
        rows[at] = '{"n": "x"}\n'
    body = "".join([*rows, last + "\n", '{"n": "x"}\n', '{"op": 0, "n": 390}\n'])
    read = {"kind": "NdJson", "schema": ["op INT", "n BIGINT"]}
    many = Many(4, random.Random(1))
    for number, way in enumerate((Here(), many)):
        with refusing("CannotMerge", "NotWhatStands", match=f"row 291 {problem}"):
            ingested(
                body,
                way,
                tmp_path / str(number),
                monkeypatch,
                read,
                MergeStrategyChangelogStream(primary_key=("n",)),
                on_bad_rows="quarantine",
            )
    assert many.partitions[0] > 3


def test_more_bad_rows_than_may_be_set_aside_are_counted_over_all_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [each if at % 30 else "2020-01-01T00:00:00,x\n" for at, each in enumerate(ROWS)]
    for number, way in enumerate((Here(), Many(4, random.Random(1)))):
        with pytest.raises(TooManyBadRows, match=r"more than 10 rows .* the last: line 302"):
            ingested(
                HEAD + "".join(rows),
                way,
                tmp_path / str(number),
                monkeypatch,
                on_bad_rows="quarantine",
            )


@pytest.mark.parametrize("bad", [range(380, 400), [3, 200, *range(380, 400)]], ids=str)
def test_the_row_that_is_one_too_many_is_told_by_its_line_in_the_file(
    bad: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [each if at not in bad else "2020-01-01T00:00:00,x\n" for at, each in enumerate(ROWS)]
    for number, way in enumerate((Here(), Many(4, random.Random(1)))):
        with pytest.raises(TooManyBadRows) as refused:
            ingested(
                HEAD + "".join(rows),
                way,
                tmp_path / str(number),
                monkeypatch,
                on_bad_rows="quarantine",
            )
        assert refused.value.facts["line"] == bad[10] + 2
        assert f"the last: line {bad[10] + 2}, column `n`" in str(refused.value)


@pytest.mark.parametrize(
    ("at", "bad", "column"),
    [
        (20, "2020-01-01T00:00:00,x\n", "n"),
        (20, "x,1\n", "event_time"),
        (20, "2020-01-01T00:00:00,\udcff\n", None),
        (120, "2020-01-01T00:00:00\n", None),
        (20, "20201-01-01T00:00:00,1\n", "event_time"),
    ],
)
def test_of_several_bad_rows_the_first_of_the_file_is_told(
    at: int, bad: str, column: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(ROWS)
    rows[at] = bad
    late = ["x,1\n", "2020-01-01T00:00:00,x\n", "1\n", f"2020-01-01T00:00:00,{'1' * 3000}\n"]
    rows[150], rows[200], rows[300], rows[390] = late
    for found, _ in both(HEAD + "".join(rows), tmp_path, monkeypatch):
        assert isinstance(found, BadRow)
        assert (found.facts["line"], found.facts.get("column")) == (at + 2, column)


def test_of_columns_that_are_not_declared_a_row_that_is_no_text_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*ROWS[:5], "2020-01-01T00:00:00,\udcff\n", *ROWS[5:]]
    read = {"kind": "Csv", "header": True, "inferSchema": True}
    found = both(HEAD + "".join(rows), tmp_path, monkeypatch, read=read, on_bad_rows="quarantine")
    for receipt, document in found:
        assert (receipt.rows_added, receipt.rows_rejected) == (400, 1)
        assert document is not None
        assert msgspec.json.decode(gzip.decompress(document))["line"] == 7
    assert found[0][0].logical_hash == found[1][0].logical_hash


def test_a_file_that_ends_within_quotes_is_one_split_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = HEAD + "".join(ROWS) + '2020-01-01T00:00:00,"1\n'
    for number, way in enumerate((Here(), Many(4, random.Random(1)))):
        bad, _ = ingested(body, way, tmp_path / str(number), monkeypatch)
        assert "line 402: the quote that opens a value is never closed" in str(bad)
