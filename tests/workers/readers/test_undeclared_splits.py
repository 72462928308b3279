"""Lines of a source without a schema give the same in splits as from the whole file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import NodeError
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats import json as readers_of_json
from odf_workers.readers.formats import splits as splits_of_files
from odf_workers.readers.formats.read import SplitRead, open_frame, open_split
from odf_workers.readers.formats.splits import ReaderSplit, plan_splits
from odf_workers.readers.values.features import Known
from odf_workers.readers.values.rejected import Rejected, RejectedRow
from odf_workers.slices.schema import Limits

MOST = 1000
HEAD = 3
"""Records from which types are inferred."""
KNOWN = Known({"n": pa.field("n", pa.float64()), "more": pa.field("more", pa.string())}, "at")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Types are inferred from few records, and splits are small."""
    monkeypatch.setattr(readers_of_json, "INFER_ROWS", HEAD)
    monkeypatch.setattr(splits_of_files, "SMALLEST_SPLIT_BYTES", 20)
    monkeypatch.setattr(splits_of_files, "SCAN_BYTES", 16)


def rows_of(frame: Any, aside: Rejected | None) -> tuple[list[Any], list[RejectedRow]]:
    rows = [] if frame is None else frame.table().to_pylist()
    return rows, [] if aside is None else aside.rows()


def whole(
    step: ReadStep, path: Path, known: Known | None, aside: Rejected | None
) -> tuple[Any, ...]:
    """Types, rows, rows set aside, and warnings; or the error."""
    try:
        frame = open_frame(step, path, Limits(), aside, known)
        rows, rejected = rows_of(frame, aside)
    except NodeError as bad:
        return type(bad), str(bad), bad.facts
    assert frame is not None
    return frame.schema, rows, rejected, frame.names.warnings()


def in_splits(
    step: ReadStep, path: Path, known: Known | None, sets_aside: bool, counts: list[int]
) -> tuple[Any, ...]:
    """The same, as the stages put it together from splits; adds their number to the counts."""
    joined, names, rows = Rejected(MOST), None, []
    try:
        aside = Rejected(MOST) if sets_aside else None
        head = open_frame(step, path, Limits(), aside, known)
        assert head is not None
        found = plan_splits(step, path, head.schema, 4, path.stat().st_size)
        counts.append(len(found.splits))
        read = SplitRead(step=step, limits=Limits(), schema=head.schema, known=known)
        for split in found.splits:
            own = Rejected(MOST, lines=split.lines) if sets_aside else None
            for schema, mine, rejected, seen in _of_split(read, split, own):
                assert schema == head.schema
                joined.follow(rejected, len(rows) + len(joined))
                rows += mine
                names = seen if names is None else names
                if names is not seen:
                    names.follow(seen)
    except NodeError as bad:
        return type(bad), str(bad), bad.facts
    assert names is not None
    return head.schema, rows, joined.rows(), names.warnings()


def _of_split(
    read: SplitRead, split: ReaderSplit, own: Rejected | None
) -> Iterator[tuple[Any, ...]]:
    with open_split(read, split, own) as frame:
        assert frame is not None
        rows, rejected = rows_of(frame, own)
        yield frame.schema, rows, rejected, frame.names


VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([None, 2.0, 1.5, 10**30, True, "1", "text", "} {", "2020-01-01", [], [1, "x"]]),
    st.fixed_dictionaries({}, optional={"a": st.integers(0, 1), "b": st.just("c")}),
)
GOOD = st.fixed_dictionaries({"n": st.integers(-3, 3)}, optional={"t": st.just("some text")})
RECORDS = st.one_of(
    GOOD, st.fixed_dictionaries({}, optional={"n": VALUES, "t": VALUES, "more": VALUES})
)


def feature(record: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "properties": record, "geometry": {"type": "Point"}}


@pytest.mark.parametrize("kind", ["NdJson", "NdGeoJson"])
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    records=st.lists(GOOD, min_size=12, max_size=30),
    strange=st.lists(st.tuples(st.integers(0, 29), RECORDS), max_size=2),
    broken=st.none() | st.tuples(st.integers(0, 29), st.sampled_from(["{", "7", '{"n": }'])),
    sets_aside=st.booleans(),
    known=st.sampled_from([None, KNOWN]),
)
def test_splits_give_the_types_rows_errors_and_warnings_of_the_whole(
    kind: str,
    records: list[dict[str, Any]],
    strange: list[tuple[int, dict[str, Any]]],
    broken: tuple[int, str] | None,
    sets_aside: bool,
    known: Known | None,
) -> None:
    if not sets_aside:  # of several bad rows, a reader tells one
        strange = [] if broken is not None else strange[:1]
    for at, record in strange:
        records[at % len(records)] = record
    step = from_data({"kind": kind}, ReadStep)
    lines = [json.dumps(feature(each) if kind == "NdGeoJson" else each) for each in records]
    if broken is not None:
        lines[broken[0] % len(lines)] = broken[1]
    counts: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        path.write_text("".join(f"{line}\n" for line in lines))
        one = whole(step, path, known, Rejected(MOST) if sets_aside else None)
        other = in_splits(step, path, known, sets_aside, counts)
    assert one == other
    assert counts == [] or counts[0] > 1
