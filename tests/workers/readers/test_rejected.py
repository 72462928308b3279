"""Bad rows that are set aside: the good ones are read as if the others had not been there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.sources.csv_header import HeaderMismatch
from odf_workers.readers.formats.read import open_frame
from odf_workers.readers.values.rejected import Rejected, TooManyBadRows
from odf_workers.slices import schema as frames
from odf_workers.slices.schema import BadRow, InputTooLarge, Limits
from odf_workers.stages.normalize import normalized

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")

FIELDS = {
    "fields": [
        {"name": "city", "type": "String"},
        {"name": "n", "type": {"kind": "Option", "inner": "Int64"}},
    ]
}
CSV = {"kind": "Csv", "schema": FIELDS}
NDJSON = {"kind": "NdJson", "schema": FIELDS}


def read(
    folder: Path, content: str | bytes, step: dict[str, Any], most: int = 100
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that are good, and those that were set aside."""
    path = folder / "input"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rejected = Rejected(most)
    frame = open_frame(from_data(step, ReadStep), path, Limits(), rejected)
    assert frame is not None
    return frame.table().to_pylist(), told(rejected)


def told(rejected: Rejected) -> list[dict[str, Any]]:
    packed = rejected.document()
    return (
        []
        if packed is None
        else [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    )


def test_rows_of_csv_that_are_ragged_or_of_another_type_are_set_aside(tmp_path: Path) -> None:
    text = 'city,n\nA,1\nB\n"C\nC",x\n,4\nE,5,6\nF,6\n'
    good, bad = read(tmp_path, text, {**CSV, "header": True})
    assert good == [{"city": "A", "n": 1}, {"city": "F", "n": 6}]
    assert [(each["row"], each["line"], each["column"], each["raw"]) for each in bad] == [
        (2, 3, None, "B"),
        (3, 4, "n", '"C\nC",x'),
        (4, 6, "city", ",4"),
        (5, 7, None, "E,5,6"),
    ]
    assert [each["reason"] for each in bad] == [
        "2 fields expected, 1 found",
        "not a value of type Int64",
        "no value in a required column; its type has to be an Option if rows may lack values",
        "2 fields expected, 3 found",
    ]


def test_a_row_of_csv_in_another_encoding_is_set_aside_with_its_bytes(tmp_path: Path) -> None:
    good, bad = read(tmp_path, "Köln,1\n".encode() + "Köln,2\n".encode("latin-1"), CSV)
    assert good == [{"city": "Köln", "n": 1}]
    assert (bad[0]["row"], bad[0]["reason"]) == (2, "the text is not UTF-8")
    assert bad[0]["raw"] == "K\\xf6ln,2"


@pytest.mark.parametrize(
    "text", ["city,m,more\nA,1\n", 'A,1\n"B,2\n'], ids=["header", "a quote that stays open"]
)
def test_what_is_wrong_with_all_of_a_file_fails_it(text: str, tmp_path: Path) -> None:
    with pytest.raises((BadRow, HeaderMismatch)):
        read(tmp_path, text, {**CSV, "header": text.startswith("city")})


def test_a_value_above_its_limit_fails_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("A,1\n" + "B" * 400 + ",2\n")
    frame = open_frame(from_data(CSV, ReadStep), path, Limits(cell_bytes=100), Rejected(10))
    assert frame is not None
    with pytest.raises(InputTooLarge):
        frame.table()


def test_lines_of_ndjson_that_do_not_parse_or_fit_are_set_aside(tmp_path: Path) -> None:
    lines = ['{"city": "A", "n": 1}', '{"city": "B", "n":', "[1]", '{"city": "D", "n": "x"}']
    lines += ["", '{"n": 5}', '{"city": "F"} {"city": "G"}', '{"city": "H", "n": 8}']
    good, bad = read(tmp_path, "\n".join(lines), NDJSON)
    assert good == [{"city": "A", "n": 1}, {"city": "H", "n": 8}]
    assert [(each["row"], each["line"]) for each in bad] == [(2, 2), (3, 3), (4, 4), (5, 6), (6, 7)]
    assert [each["raw"] for each in bad] == [lines[at] for at in (1, 2, 3, 5, 6)]


@pytest.mark.parametrize("odd", ['{"city": "C", "n": 1}{"city": "D", "n": 2}', '{"city":\n"C"}'])
def test_a_bad_row_far_behind_a_line_that_is_not_one_record_loses_no_other_row(
    odd: str, tmp_path: Path
) -> None:
    """The file is read in chunks, of which the second has the bad row."""
    rows = [json.dumps({"city": "x" * 90, "n": number}) for number in range(12_000)]
    rows[10], rows[11_900] = odd, '{"city": "A", "n": "bad"}'
    good, bad = read(tmp_path, "\n".join(rows), NDJSON)
    assert [each["n"] for each in good] == [n for n in range(12_000) if n not in (10, 11_900)]
    assert [each["raw"] for each in bad] == [*odd.split("\n"), rows[11_900]]


@pytest.mark.parametrize("step", [NDJSON, {**NDJSON, "kind": "Json"}, {"kind": "NdJson"}])
def test_a_row_with_half_of_a_surrogate_pair_is_set_aside_in_an_escaped_form(
    step: dict[str, Any], tmp_path: Path
) -> None:
    rows = ['{"city": "A", "n": 1}', '{"city": "\\ud800", "n": 2}', '{"city": "C", "n": 3}']
    text = "[" + ",".join(rows) + "]" if step["kind"] == "Json" else "\n".join(rows)
    good, bad = read(tmp_path, text, step)
    assert [each["n"] for each in good] == [1, 3]
    assert [(each["row"], each["column"], each["value"]) for each in bad] == [
        (2, "city", "\\ud800")
    ]
    assert "\\ud800" in bad[0]["raw"]


def test_types_are_inferred_without_the_rows_that_are_no_records(tmp_path: Path) -> None:
    good, bad = read(tmp_path, '7\n{"a": 1}\n{"a": 2', {"kind": "NdJson"})
    assert good == [{"a": 1}]
    assert [each["row"] for each in bad] == [1, 3]


def test_elements_of_a_json_array_are_set_aside_and_a_broken_document_fails(
    tmp_path: Path,
) -> None:
    step = {**NDJSON, "kind": "Json"}
    text = '[{"city": "A"}, 5, {"city": "C", "n": 1e99}, {"city": "D"}]'
    good, bad = read(tmp_path, text, step)
    assert [each["city"] for each in good] == ["A", "D"]
    assert [(each["row"], each["raw"]) for each in bad] == [(2, "5"), (3, '{"city":"C","n":1e99}')]
    with pytest.raises((BadRow, HeaderMismatch)):
        read(tmp_path, text[:-1], step)


def test_features_without_geometry_are_set_aside(tmp_path: Path) -> None:
    feature = '{"type": "Feature", "properties": {"a": %d}, "geometry": %s}'
    good, bad = read(
        tmp_path,
        '{"type": "Feature", "properties": {}}\n' + feature % (2, "{}"),
        {"kind": "NdGeoJson"},
    )
    assert good == [{"a": 2, "geometry": "{}"}]
    assert bad[0]["reason"] == "not a Feature with properties and geometry"


def test_rows_of_parquet_that_do_not_cast_are_set_aside(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"city": ["A", None, "C", "D"], "n": ["1", "2", "x", "4"]}), tmp_path / "file"
    )
    good, bad = read(tmp_path, (tmp_path / "file").read_bytes(), {**NDJSON, "kind": "Parquet"})
    assert good == [{"city": "A", "n": 1}, {"city": "D", "n": 4}]
    assert [(each["row"], each["column"], each["raw"]) for each in bad] == [
        (2, "city", '{"city":null,"n":"2"}'),
        (3, "n", '{"city":"C","n":"x"}'),
    ]


def test_more_bad_rows_than_may_be_set_aside_fail_the_batch(tmp_path: Path) -> None:
    text = "A,1\n" + "B,x\n" * 3
    assert len(read(tmp_path, text, CSV, most=3)[1]) == 3
    with pytest.raises(TooManyBadRows) as refused:
        read(tmp_path, text, CSV, most=2)
    assert refused.value.facts["max_bad_rows"] == 2
    assert refused.value.facts["line"] == 4


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("kind", ["Csv", "NdJson", "Json"])
def test_without_setting_aside_the_first_bad_row_is_told(
    kind: str, first: int, tmp_path: Path
) -> None:
    """The kinds of bad rows are found at different times: when a row is split or parsed, and when
    its columns are converted one after the other."""
    good, bad = {
        "Csv": ("A,1", ["A,x", ",1", "A,1,2", "A,\udcff"]),
        "NdJson": ('{"city":"A","n":1}', ['{"city":"A","n":"x"}', '{"n":1}', "[1]", '{"city":?}']),
        "Json": ('{"city":"A","n":1}', ['{"city":"A","n":"x"}', '{"n":1}', "[1]", '{"city":?}']),
    }[kind]
    rows = [good] * 120
    for at in range(4):
        rows[40 + 20 * at] = bad[(first + at) % 4]
    text = "[" + ",\n".join(rows) + "]" if kind == "Json" else "\n".join(rows)
    path = tmp_path / "input"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    frame = open_frame(from_data({**NDJSON, "kind": kind}, ReadStep), path, Limits())
    assert frame is not None
    taken: list[int] = []
    with pytest.raises(BadRow) as refused:
        taken.extend(batch.num_rows for batch in frame.batches)
    assert (refused.value.facts["line"], sum(taken)) == (41, 40)


def test_a_value_above_its_limit_fails_after_the_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("A,1\n" * 50 + "A,x\n" + "A,1\n" * 50 + "B" * 400 + ",2\n")
    with pytest.raises(TooManyBadRows) as refused:
        open_frame(from_data(CSV, ReadStep), path, Limits(cell_bytes=100), Rejected(0)).table()  # type: ignore[union-attr]
    assert refused.value.facts["line"] == 51


def test_of_a_long_row_the_beginning_is_kept(tmp_path: Path) -> None:
    _, bad = read(tmp_path, "A" * 10_000 + ",1,2\n", CSV)
    assert bad[0]["raw"] == "A" * frames.RAW_CHARS + "…"


def test_event_times_that_are_none_are_set_aside_and_numbered_among_the_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "input"
    times = ["2024-01-01", "7", "soon", '"2024-01-02"', '"never"', '"2024-01-03"']
    path.write_text("".join(f'{{"event_time": {each}}}\n' for each in ['"2024-01-01"', *times]))
    rejected = Rejected(10)
    frame = open_frame(from_data({"kind": "NdJson"}, ReadStep), path, Limits(), rejected)
    assert frame is not None
    rows = normalized(
        frame,
        vocab=Vocab(),
        coerces=True,
        takes_operations=False,
        rejected=rejected,
    )
    assert sum(batch.num_rows for batch in rows.batches) == 3
    assert [(each["row"], each["column"]) for each in told(rejected)] == [
        (2, None),
        (3, "event_time"),
        (4, None),
        (6, "event_time"),
    ]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["A,1", "B,x", "C", '"D",2', 'E\\",3', "F,", ",7"]), max_size=60))
def test_what_is_good_and_what_is_bad_together_are_all_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    good, bad = read(folder, "".join(row + "\n" for row in rows), CSV)
    misfits = {"B,x", "C", ",7"}
    assert [each["raw"] for each in bad] == [row for row in rows if row in misfits]
    assert len(good) + len(bad) == len(rows)
    assert [each["row"] for each in bad] == [at for at, row in enumerate(rows, 1) if row in misfits]
