"""Bodies that are read as one give the rows they give when each is read by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.reading import (
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
)
from odf_node.protocol.metadata.schema import DataSchema
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.ports.values import JobId
from odf_node.workers.jobs.ingest import lines
from odf_node.workers.jobs.ingest.joined import part_of
from odf_node.workers.jobs.ingest.lines import Body, ReadTogether, Rows
from odf_node.workers.jobs.ingest.outcome import Extras
from odf_node.workers.jobs.work.context import Engines, WorkerContext
from odf_node.workers.plan.ingest import IngestPlan
from odf_node.workers.slices.frame import Limits

none: Any = None
COLUMNS = [
    {"name": "n", "type": {"kind": "Int64"}},
    {"name": "at", "type": {"kind": "Option", "inner": {"kind": "Timestamp"}}},
    {"name": "city", "type": {"kind": "Option", "inner": {"kind": "String"}}},
    {"name": "share", "type": {"kind": "Option", "inner": {"kind": "Float64"}}},
]
SYSTEM = [
    {"name": "offset", "type": {"kind": "Int64"}},
    {"name": "op", "type": {"kind": "Int32"}},
    {
        "name": "system_time",
        "type": {"kind": "Timestamp", "unit": "Millisecond", "timezone": "UTC"},
    },
    {"name": "at", "type": {"kind": "Timestamp", "unit": "Millisecond", "timezone": "UTC"}},
]
SCHEMA = from_data({"fields": [*SYSTEM, *(c for c in COLUMNS if c["name"] != "at")]}, DataSchema)
READ_SCHEMA = from_data({"fields": COLUMNS}, DataSchema)
CSV = ReadStepCsv(header=True, schema=READ_SCHEMA)
BARE = ReadStepCsv(schema=READ_SCHEMA)
NDJSON = ReadStepNdJson(schema=READ_SCHEMA)
CELLS = st.sampled_from(["", "1", "-7", "x", "1.5", "é", " ", "NaN", '"q"', "{", "}", "\\"])
TIMES = st.sampled_from(
    [
        "",
        "2024-01-01T00:00:00Z",
        "2024-01-02",
        "2023-05-05 10:00:00.123",
        "1999-12-31T23:59:59+02:00",
        "x",
    ]
)
NUMBERS = st.integers(-5, 5).map(str)
ROWS = st.tuples(NUMBERS | CELLS, TIMES, CELLS, CELLS)
GOOD_ROWS = st.tuples(
    NUMBERS, TIMES.filter(lambda t: t != "x"), st.sampled_from(["", "a", "é"]), NUMBERS
)
ENDS = st.sampled_from(["\n", "", "\n\n", "\r\n"])


def plan(read: ReadStep, number: int = 0) -> IngestPlan:
    return IngestPlan(
        head=Multihash.of(b"head"),
        source_name="default",
        read=read,
        preprocess=None,
        merge=MergeStrategyAppend(),
        vocab=Vocab(event_time_column="at"),
        schema=SCHEMA,
        prev_offset=None,
        watermark=None,
        source_state=None,
        has_history=False,
        system_time=Instant.parse("2024-06-01T00:00:00Z"),
        source_event_time=Instant(1_700_000_000_000_000_000 + number * 1_000_000_000),
    )


def bench(folder: Path) -> WorkerContext:
    return WorkerContext(engines=Engines(session=none, first=none), objects=none, scratch=folder)


def alone(body: Body, folder: Path) -> Rows | None:
    """The rows of a body read by itself; None if it is refused, or goes another way."""
    folder.mkdir(exist_ok=True)
    path = folder / "input"
    path.write_bytes(body.content)
    dataset: Any = SimpleNamespace()
    try:
        part = part_of(dataset, body.plan, path, bench(folder), folder, Extras())
    except Exception:
        return None
    return None if part is None else Rows(part.rows, part.warnings)


def together(bodies: Sequence[Body], folder: Path) -> list[Rows | None]:
    asked = {JobId(str(number)): body for number, body in enumerate(bodies)}
    read = ReadTogether(asked, Limits(), folder)
    return [read.rows(job, body.plan) for job, body in asked.items()]


def same(bodies: Sequence[Body]) -> list[pa.Table | None]:
    """What was read together, once rows and warnings are found to be what each gives alone."""
    with tempfile.TemporaryDirectory() as place:
        found = together(bodies, Path(place))
        for number, (body, rows) in enumerate(zip(bodies, found, strict=True)):
            if rows is not None:
                by_itself = alone(body, Path(place) / str(number))
                assert by_itself is not None, body.content
                assert rows.table.schema == by_itself.table.schema
                texts = [[str(row) for row in each.table.to_pylist()] for each in (rows, by_itself)]
                assert texts[0] == texts[1]
                assert rows.warnings == by_itself.warnings, body.content
    return [None if rows is None else rows.table for rows in found]


def csv(rows: Sequence[Sequence[str]], end: str, head: str = "n,at,city,share") -> bytes:
    return ("\n".join([*([head] if head else []), *map(",".join, rows)]) + end).encode()


def ndjson(rows: Sequence[Sequence[str]], end: str) -> bytes:
    texts = []
    for number, at, city, share in rows:
        values = [f'"n": {number or "null"}', f'"at": "{at}"' if at else '"at": null']
        values += [f'"city": "{city}"', f'"share": {share or "null"}']
        texts.append("{" + ", ".join(values) + "}")
    return ("\n".join(texts) + end).encode()


CASES = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@CASES
@given(
    st.lists(st.tuples(st.lists(ROWS | GOOD_ROWS, max_size=3), ENDS), min_size=2, max_size=9),
    st.sampled_from(["csv", "bare", "ndjson"]),
)
@example([([("1", "", "a", "1")], "\n"), ([("2", "2024-01-01", "b", "")], "")], "csv")
def test_whatever_is_read_together_is_what_it_is_alone(
    batches: list[tuple[list[tuple[str, str, str, str]], str]], kind: str
) -> None:
    made = {
        "csv": lambda rows, end: Body(plan(CSV), csv(rows, end)),
        "bare": lambda rows, end: Body(plan(BARE), csv(rows, end, "")),
        "ndjson": lambda rows, end: Body(plan(NDJSON), ndjson(rows, end)),
    }[kind]
    same([made(rows, end) for rows, end in batches])


@CASES
@given(
    st.lists(st.lists(GOOD_ROWS, min_size=1, max_size=4), min_size=2, max_size=6),
    st.sampled_from([CSV, BARE, NDJSON]),
)
def test_good_bodies_are_all_read_together(
    batches: list[list[tuple[str, str, str, str]]], read: ReadStep
) -> None:
    bodies = []
    for number, rows in enumerate(batches):
        content = (
            ndjson(rows, "\n")
            if read is NDJSON
            else csv(rows, "\n", "h,e,a,d" if read is CSV else "")
        )
        bodies.append(Body(plan(read, number), content))
    assert all(rows is not None for rows in same(bodies))


HEADS = (
    "n,at,city,share",
    "city,n,share,at",
    "n,at,town,part",
    "at,n,town,part",
    "N, at,City,share",
)


@CASES
@given(st.lists(st.tuples(st.sampled_from(HEADS), GOOD_ROWS), min_size=2, max_size=9))
def test_headers_mean_the_same_together_and_alone(batches: list[tuple[str, Any]]) -> None:
    columns = dict(zip(("n", "at", "city", "share"), range(4), strict=True))
    bodies = []
    for head, row in batches:
        names = [name.strip().lower() for name in head.split(",")]
        cells = [row[columns[name]] if name in columns else "7" for name in names]
        bodies.append(Body(plan(CSV), csv([cells], "\n", head)))
    same(bodies)


def test_a_header_that_is_not_announced_keeps_its_body_apart() -> None:
    rows = [csv([("1", "", "a", "")], "\n", head) for head in ("", "city,at,n,share", "")]
    assert [found is None for found in same([Body(plan(BARE), body) for body in rows])] == [
        False,
        True,
        False,
    ]


def test_each_body_is_told_of_its_own_fields() -> None:
    lines_of = (b'{"n": 1, "at": null, "city": "A", "share": null}', b'{"n": 2, "town": "B"}')
    bodies = [Body(plan(NDJSON), line + b"\n") for line in (*lines_of, lines_of[0])]
    with tempfile.TemporaryDirectory() as place:
        found = together(bodies, Path(place))
    told = [rows.warnings if rows is not None else None for rows in found]
    assert told == [
        (),
        (
            "fields that the schema does not name are not stored: `town`",
            "columns that no record names are null: `at`, `city`, `share`",
        ),
        (),
    ]
    same(bodies)


def test_rows_without_a_time_take_that_of_their_own_post() -> None:
    bodies = [Body(plan(CSV, number), csv([("1", "", "", "")], "\n")) for number in range(3)]
    times = [rows.column("at")[0].as_py().second for rows in same(bodies) if rows is not None]
    assert times == [20, 21, 22]


def test_one_bad_body_keeps_the_other_half_together() -> None:
    bodies = [Body(plan(CSV), csv([(str(n), "", "", "")], "\n")) for n in range(16)]
    bodies[3] = Body(plan(CSV), csv([("x", "", "", "")], "\n"))
    found = same(bodies)
    assert found[3] is None
    assert sum(rows is not None for rows in found) == 12


@pytest.mark.parametrize(
    "content",
    [
        b'{"n": 1}{"n": 2}\n',
        b'{"n":\n1}\n',
        b'{"n": 1',
        b', "at": null}\n',
        b'\n{"n": 1}\n',
        b"\xef\xbb\xbf" + b'{"n": 1}\n',
        b"",
        b" \n",
    ],
    ids=["two", "over-lines", "begun", "ended", "blank", "bom", "nothing", "space"],
)
def test_a_body_that_is_no_rows_of_a_line_each_is_read_by_itself(content: bytes) -> None:
    good = [Body(plan(NDJSON), b'{"n": 4}\n') for _ in range(3)]
    found = same([good[0], Body(plan(NDJSON), content), *good[1:]])
    assert found[1] is None


def test_other_headers_and_other_readers_are_read_apart(tmp_path: Path) -> None:
    row = [("1", "", "a", "2")]
    bodies = [Body(plan(CSV), csv(row, "\n", head)) for head in ("a,b,c,d", "e,f,g,h") * 2]
    bodies += [Body(plan(NDJSON), ndjson(row, "\n"))] * 2
    bodies += [
        Body(plan(ReadStepJson(schema=READ_SCHEMA)), b"[]"),
        Body(plan(CSV), csv(row, "\n", "a")),
    ]
    found = same(bodies)
    assert [rows is not None for rows in found] == [True] * 6 + [False] * 2


def test_what_was_planned_for_another_schema_since_is_read_again(tmp_path: Path) -> None:
    bodies = {JobId(str(n)): Body(plan(CSV), csv([("1", "", "", "")], "\n")) for n in range(2)}
    read = ReadTogether(bodies, Limits(), tmp_path)
    assert read.rows(JobId("0"), plan(CSV)) is not None
    assert read.rows(JobId("0"), plan(BARE)) is None
    assert read.rows(JobId("7"), plan(CSV)) is None


def test_types_that_are_found_out_from_the_rows_are_those_of_one_body(tmp_path: Path) -> None:
    bodies = [Body(plan(ReadStepNdJson()), b'{"n": 1}\n')] * 2
    assert together(bodies, tmp_path) == [None, None]
    long = b'{"n": 1, "city": "' + b"x" * lines.SMALL_BYTES + b'"}\n'
    assert together([Body(plan(NDJSON), long)] * 2, tmp_path) == [None, None]
