"""NdJson gives the same rows, bad rows and errors: many lines at once or one by one, whole or in
splits, strictly or with bad rows set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odf_protocol.metadata.sources import ReadStepNdJson
from odf_workers.readers.formats import json as readers_of_json
from odf_workers.readers.formats import ndjson_lines
from odf_workers.readers.formats import splits as splits_of_files
from odf_workers.readers.formats.ndjson_lines import LinesNotAgreed
from odf_workers.readers.formats.read import SplitRead, open_split, schema_of
from odf_workers.readers.formats.splits import ReaderSplit, plan_splits
from odf_workers.readers.values.json_scan import FieldsSeen
from odf_workers.readers.values.rejected import Rejected
from odf_workers.slices.schema import BadRow, Limits

STEP = ReadStepNdJson(ddl_schema=("s STRING", "n BIGINT", "f DOUBLE", "t TIMESTAMP", "b BOOLEAN"))
VALUES = {
    "s": [
        '"a"',
        '"\\":"',
        '" :"',
        '"}\\n{"',
        "null",
        '"é"',
        '"\\u00e9"',
        '"\\ud800"',
        "5",
        '{"a":1}',
    ],
    "n": ["1", "null", '"12"', "1.7", "1e2", "-0", "01", "x", "true", "9" * 20, '"x"'],
    "f": ["1", "2.5", "null", '"1.5"', "1e400", "NaN", "9" * 30, "true"],
    "t": ['"2020-01-01"', '"2020-01-01T00:00:00Z"', "12", "1.5", "null", '"bad"', '"0000-01-01"'],
    "b": ["true", "false", "null", "1", '"true"'],
    "z": ["1", '{"q":[{},{}]}', "{"],
}
FIELD = st.sampled_from(
    [
        f'"{name}"{colon}{value}'
        for name, values in VALUES.items()
        for value in values
        for colon in (":", ":", " :")
    ]
)
GOOD = st.builds('{{"s":"{}","n":{}}}'.format, st.sampled_from("abcé"), st.integers(0, 99))
RECORD = st.builds(
    lambda fields, seam: "{" + seam.join(fields) + "}",
    st.lists(FIELD, max_size=5),
    st.sampled_from([",", ",", ",", ",\n", ",,"]),
)
LINE = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", " "]),
    GOOD | RECORD,
    st.sampled_from(["", "", "", "", " ", " {}", "{", "\udcff"]),
    st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n \n", ""]),
)
Came = tuple[list[str], list[tuple[Any, ...]], list[str]]


def never(*_: object) -> Iterator[Any]:
    raise LinesNotAgreed
    yield


def read(splits: Sequence[ReaderSplit]) -> Came:
    """The rows, the rows that are set aside, and the warnings."""
    rows: list[str] = []
    aside = Rejected(1_000)
    names: FieldsSeen | None = None
    for split in splits:
        own = Rejected(1_000, lines=split.lines)
        before = len(rows) + len(aside)
        split_read = SplitRead(step=STEP, limits=Limits(), schema=schema_of(STEP))
        with open_split(split_read, split, own) as frame:
            assert frame is not None
            rows += [str(row) for batch in frame.batches for row in batch.to_pylist()]
            if names is None:
                names = frame.names
            elif frame.names is not None:
                names.follow(frame.names)
        aside.follow(own.rows(), before)
    bad = [(row.row, row.line, row.column, row.reason, row.raw) for row in aside.rows()]
    return rows, bad, [] if names is None else names.warnings()


def read_strictly(splits: Sequence[ReaderSplit]) -> list[str] | BadRow:
    """The rows, or the first error."""
    rows: list[str] = []
    try:
        for split in splits:
            split_read = SplitRead(step=STEP, limits=Limits(), schema=schema_of(STEP))
            with open_split(split_read, split, None) as frame:
                assert frame is not None
                rows += [str(row) for batch in frame.batches for row in batch.to_pylist()]
    except BadRow as bad:
        return bad
    return rows


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson_lines, "CHUNK_BYTES", 50)
    monkeypatch.setattr(splits_of_files, "SMALLEST_SPLIT_BYTES", 40)
    monkeypatch.setattr(splits_of_files, "SCAN_BYTES", 7)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(LINE, min_size=1, max_size=14), mark=st.sampled_from(["", "", "\ufeff"]))
@example(lines=['{"s":"a","s":"a","t":"2020-01-01"}\n'], mark="")
def test_lines_are_the_same_rows_and_bad_rows_whatever_the_reading(
    lines: list[str], mark: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "input"
    path.write_bytes((mark + "".join(lines)).encode(errors="surrogateescape"))
    whole, cut = (
        [ReaderSplit(file=path)],
        plan_splits(STEP, path, schema_of(STEP), 4, path.stat().st_size).splits,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers_of_json, "quick_batches", never)
        wanted, strict = read(whole), read_strictly(whole)
    rows, bad, _ = wanted
    assert read(whole) == wanted
    assert read(cut) == wanted
    for found in (strict, read_strictly(whole), read_strictly(cut)):
        if not bad:
            assert found == rows
        else:
            assert isinstance(found, BadRow)
            assert len(bad) > 1 or (found.line, found.column, found.reason) == bad[0][1:4]
