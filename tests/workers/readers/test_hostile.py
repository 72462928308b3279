"""Input nobody should send: refused with a place, within limits, in bounded memory and time."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing

from odf_protocol.codec.manifests import from_data
from odf_protocol.errors import BadInput, LimitExceeded, NodeError
from odf_protocol.metadata.sources import ReadStep
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import BadInputSchema, BadRow, Frame, InputTooLarge, Limits

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")

FIELDS = [
    {"name": "n", "type": {"kind": "Option", "inner": "Int64"}},
    {"name": "s", "type": {"kind": "Option", "inner": "String"}},
]
CSV = {"kind": "Csv", "schema": {"fields": FIELDS}}
NDJSON = {"kind": "NdJson", "schema": {"fields": FIELDS}}
SMALL = Limits(columns=100, cell_bytes=1_000, row_bytes=10_000)


def opened(step: dict[str, Any], body: bytes, folder: Path, limits: Limits = SMALL) -> Frame:
    path = folder / "input"
    path.write_bytes(body)
    read: ReadStep = from_data(step, ReadStep)
    frame = open_frame(read, path, limits)
    assert frame is not None
    return frame


def rows(step: dict[str, Any], body: bytes, folder: Path, limits: Limits = SMALL) -> pa.Table:
    return opened(step, body, folder, limits).table()


GOOD_CSV = b"1,a\n" * 30_000
GOOD_NDJSON = b'{"n":1,"s":"a"}\n' * 30_000


@pytest.mark.parametrize(
    ("step", "good", "bad"),
    [
        (CSV, GOOD_CSV, b"1\n"),
        (CSV, GOOD_CSV, b"1,a,b\n"),
        (CSV, GOOD_CSV, b"x,a\n"),
        (CSV, GOOD_CSV, b"0x10,a\n"),
        (CSV, GOOD_CSV, b"=1+1,a\n"),
        (CSV, GOOD_CSV, b"1,\xff\xfe\n"),
        (CSV, GOOD_CSV, b"99999999999999999999,a\n"),
        (CSV, GOOD_CSV, b'1,"never closed\n'),
        (CSV, GOOD_CSV, b"1,\x00\xed\xa0\x80\n"),
        (NDJSON, GOOD_NDJSON, b'{"n":1,"s":2}\n'),
        (NDJSON, GOOD_NDJSON, b'{"n":"one"}\n'),
        (NDJSON, GOOD_NDJSON, b'{"n":1e400}\n'),
        (NDJSON, GOOD_NDJSON, b'{"n":99999999999999999999}\n'),
        (NDJSON, GOOD_NDJSON, b'{"n":NaN}\n'),
        (NDJSON, GOOD_NDJSON, b"{'n':1}\n"),
        (NDJSON, GOOD_NDJSON, b"[1]\n"),
        (NDJSON, GOOD_NDJSON, b"null\n"),
        (NDJSON, GOOD_NDJSON, b'{"n":1,}\n'),
        (NDJSON, GOOD_NDJSON, b'{"s":"\xff"}\n'),
        (NDJSON, GOOD_NDJSON, b'{"other":"\xff"}\n'),
        (NDJSON, GOOD_NDJSON, b'{"s":"\\ud800"}\n'),
        (NDJSON, GOOD_NDJSON, b"[" * 5_000 + b"\n"),
        (NDJSON, GOOD_NDJSON, b'{"z":' + b'{"a":' * 1_500 + b"1" + b"}" * 1_501 + b"\n"),
    ],
)
def test_the_line_of_a_bad_record_is_told_however_far_in_it_is(
    step: dict[str, Any], good: bytes, bad: bytes, tmp_path: Path
) -> None:
    with pytest.raises(BadRow) as caught:
        rows(step, good + bad + b"\n", tmp_path)
    assert caught.value.facts["line"] == 30_001


@pytest.mark.parametrize(
    "step", [CSV, NDJSON, {"kind": "Json"}, {"kind": "GeoJson"}], ids=lambda s: s["kind"]
)
@pytest.mark.parametrize("filler", [b"a", b"[", b"9", b"\\"])
def test_one_endless_line_takes_no_more_memory_than_the_limit(
    step: dict[str, Any], filler: bytes, tmp_path: Path
) -> None:
    body = b'{"s":"' + filler * (2 << 20) if filler == b"a" else filler * (2 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(NodeError):
            rows({**step, "schema": {"fields": FIELDS}}, body, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_cell_above_the_limit_is_named(tmp_path: Path) -> None:
    long = b"x" * 2_000
    for step, line in ((CSV, b"1," + long), (NDJSON, b'{"s":"' + long + b'"}')):
        good = b"1,a\n" if step is CSV else b'{"n":1}\n'
        with pytest.raises(InputTooLarge, match="line 2, column `s`"):
            rows(step, good + line + b"\n", tmp_path)


def test_a_hundred_thousand_columns_are_refused(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(100_000)).encode()
    wide = Limits(row_bytes=32 << 20)
    for step, body in (
        ({"kind": "Csv", "header": True}, names + b"\n" + b"," * 99_999 + b"\n"),
        ({"kind": "NdJson"}, json.dumps({f"c{n}": n for n in range(100_000)}).encode()),
    ):
        with pytest.raises(LimitExceeded, match="100000 columns"):
            rows(step, body, tmp_path, wide)
    table = pa.table({f"c{n}": [n] for n in range(3_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    with pytest.raises(LimitExceeded, match="3000 columns"):
        rows({"kind": "Parquet"}, sink.getvalue().to_pybytes(), tmp_path, wide)


def test_formulas_are_text_and_stay_text(tmp_path: Path) -> None:
    cells = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\tx"]
    body = "".join(f"1,{cell}\n" for cell in cells).encode()
    assert rows(CSV, body, tmp_path).column("s").to_pylist() == cells


def test_names_that_clash_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputSchema, match="more than once"):
        rows({"kind": "Csv", "header": True}, b"a,a\n1,2\n", tmp_path)
    assert rows({"kind": "Csv", "header": True}, b"a,A\n1,2\n", tmp_path).num_columns == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0001-01-01T00:00:00Z", "0001-01-01"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31"),
        ("10000-01-01", None),
        ("-0001-01-01", None),
        ("2020-02-30", None),
        ("2020-01-01T24:00:00Z", None),
        ("2020-01-01T23:59:60Z", None),
    ],
)
def test_far_and_impossible_times(text: str, wanted: str | None, tmp_path: Path) -> None:
    fields = [{"name": "t", "type": "Timestamp"}]
    for kind, body in (("Csv", f"{text}\n"), ("NdJson", json.dumps({"t": text}))):
        step = {"kind": kind, "schema": {"fields": fields}}
        if wanted is None:
            with pytest.raises(BadRow, match="line 1"):
                rows(step, body.encode(), tmp_path)
        else:
            assert str(rows(step, body.encode(), tmp_path).column("t")[0]).startswith(wanted)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "-0.0", "1e308", "5e-324"])
def test_odd_floats_arrive_as_they_are(text: str, tmp_path: Path) -> None:
    step = {"kind": "Csv", "schema": {"fields": [{"name": "f", "type": "Float64"}]}}
    found = rows(step, f"{text}\n".encode(), tmp_path).column("f")[0].as_py()
    assert repr(found) == repr(float(text))


def test_a_parquet_file_of_lies_is_refused(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(10_000), "s": ["x" * 50] * 10_000}), sink)
    raw = sink.getvalue().to_pybytes()
    for at in range(4, len(raw), max(1, len(raw) // 60)):
        harmed = raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]
        with suppress(BadInput):  # a byte of padding harms nothing
            rows({"kind": "Parquet"}, harmed, tmp_path)
    for cut in (3, 4, 8, len(raw) // 2, len(raw) - 1):
        with refusing("MalformedParquet"):
            rows({"kind": "Parquet"}, raw[:cut], tmp_path)


def test_a_batch_much_larger_than_memory_allows_passes_through(tmp_path: Path) -> None:
    """Rows are read in batches: what is kept of a 100 MB file is a fraction of it."""
    path = tmp_path / "input"
    line = b"1," + b"x" * 990 + b"\n"
    with path.open("wb") as out:
        for _ in range(100):
            out.write(line * 1_000)
    read: ReadStep = from_data(CSV, ReadStep)
    frame = open_frame(read, path, Limits())
    assert frame is not None
    before = pa.total_allocated_bytes()
    most = count = 0
    for batch in frame.batches:
        count += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 100_000
    assert most < 48 << 20  # how far threads read ahead is chance
