"""What is proposed for a file: types, dates as people write them, key, event time, and remarks.

Readers of the node read each file by what was proposed for it, so that no proposal is one that
could not be posted.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import random
import tracemalloc
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from odf_node.proposal.headers import NoRecords
from odf_node.proposal.options import Choices, DateOrder
from odf_node.proposal.proposal import propose
from odf_node.proposal.sample import DIRECTORY_BYTES, sample_of
from odf_node.proposal.wire import to_manifest
from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import load_snapshots
from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import SetVocab
from odf_protocol.sources.source_rules import check_definition
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import Limits

CITIES = """\
id,city,founded,population,capital
1,Oslo,1048-01-01,709037,true
2,Bergen,1070-01-01,,false
"""


def proposed(text, name="file.csv", *, is_whole=True, **choices):
    data = text.encode() if isinstance(text, str) else text
    return propose(sample_of(name, data, is_whole=is_whole), Choices(**choices))


def kinds(proposal):
    return {one.name: one.kind for one in proposal.columns}


def column(values, name="x", **choices):
    """The column of these texts, beside one that tells the rows apart."""
    lines = [f"id,{name}", *(f'{at},"{value}"' for at, value in enumerate(values))]
    proposal = proposed("\n".join(lines) + "\n", **choices)
    return proposal, next(one for one in proposal.columns if one.name == name)


def read_by(proposal, text, folder, name="input"):
    """The rows that a worker's reader gives by the proposal."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_frame(proposal.read, path, Limits()).table().to_pylist()


def test_types_key_and_event_time_are_proposed():
    proposal = proposed(CITIES, "Cities of Norway.csv")
    assert proposal.name == "cities-of-norway"
    assert kinds(proposal) == {
        "id": "Int64",
        "city": "String",
        "founded": "Date",
        "population": "Int64",
        "capital": "Bool",
    }
    assert proposal.key == ("id",)
    assert proposal.event_time == "founded"
    assert type(proposal.merge).__name__ == "MergeStrategyUpsertStream"
    assert proposal.is_whole
    assert not proposal.questions


@pytest.mark.parametrize(
    ("values", "kind", "pattern"),
    [
        (["31.12.2025", "1.1.2026"], "Date", "d.M.yyyy"),
        (["31.12.25", "01.01.26"], "Date", "d.M.yy"),
        (["12/31/2025", "1/2/2026"], "Date", "M/d/yyyy"),
        (["31/12/2025", "1/2/2026"], "Date", "d/M/yyyy"),
        (["2025/12/31"], "Date", "yyyy/M/d"),
        (["2025-12-31"], "Date", None),
        (["2025-1-1", "2025-12-31"], "Date", "yyyy-M-d"),
        (["31 Dec 2025", "1 May 2026"], "Date", "d MMM yyyy"),
        (["Dec 31, 2025"], "Date", "MMM d, yyyy"),
        (["December 31, 2025"], "Date", "MMMM d, yyyy"),
        (["2025-12-31T23:59:59Z", "2025-12-31 10:00:00.5+02:00"], "Timestamp", None),
        (["31.12.2025 23:59", "1.1.2026 0:01"], "Timestamp", "d.M.yyyy H:mm"),
        (["31.12.2025 23:59:01"], "Timestamp", "d.M.yyyy H:mm:ss"),
        (["12/31/2025 11:59 PM"], "Timestamp", "M/d/yyyy h:mm a"),
        (["2025-12-31 23:59", "2025-12-31T23:59 UTC"], "Timestamp", None),
        (["1", "-2"], "Int64", None),
        (["1.5", "2", "1e3", "nan"], "Float64", None),
        (["TRUE", "false"], "Bool", None),
        (["007", "008"], "String", None),
        (["1,5", "2,25"], "Float64", None),
        (["1,500", "2,250"], "String", None),
        (["99999999999999999999"], "String", None),
        (["2025-02-30"], "String", None),
        (["31.12.2025", "soon"], "String", None),
        (["1700000000"], "Int64", None),
    ],
)
def test_values_are_read_as_people_write_them(tmp_path, values, kind, pattern):
    proposal, found = column(values)
    assert found.kind == kind
    read = proposal.read
    assert (read.date_format if kind == "Date" else read.timestamp_format) == pattern
    text = "\n".join(["id,x", *(f'{at},"{value}"' for at, value in enumerate(values))]) + "\n"
    assert all(row["x"] is not None for row in read_by(proposal, text, tmp_path))


def test_dates_of_which_the_order_is_open_are_asked_about(tmp_path):
    proposal, _ = column(["01/02/2025", "03/04/2025"])
    assert "the day or the month" in proposal.questions[0]
    for order, month in ((DateOrder.DAY_FIRST, 2), (DateOrder.MONTH_FIRST, 1)):
        decided, _ = column(["01/02/2025", "03/04/2025"], date_order=order)
        assert decided.questions == ()
        assert read_by(decided, "id,x\n1,01/02/2025\n", tmp_path)[0]["x"].month == month


def test_columns_of_another_form_than_most_stay_text():
    proposal = proposed("a,b,c\n31.12.2025,30.12.2025,2025-12-31\n1.1.2025,1.1.2025,2025-01-01\n")
    assert kinds(proposal) == {"a": "Date", "b": "Date", "c": "String"}
    assert any("c: written as yyyy-MM-dd" in note for note in proposal.notes)


def test_a_word_for_no_value_is_found(tmp_path):
    text = "id,n\n1,5\n2,NA\n3,7\n"
    proposal = proposed(text)
    assert (kinds(proposal)["n"], proposal.read.null_value) == ("Int64", "NA")
    assert [row["n"] for row in read_by(proposal, text, tmp_path)] == [5, None, 7]


@pytest.mark.parametrize("word", ["NA", "-"])
def test_a_word_for_no_value_of_numbers_stays_a_text_in_columns_of_text(tmp_path, word):
    proposal = proposed(f"country,n\nDE,1\nFR,{word}\nIT,3\n")
    assert f"n: {word!r} stands for no value" in proposal.notes
    assert not any("all columns" in note for note in proposal.notes)
    later = read_by(proposal, f"country,n\n{word},5\nES,{word}\n", tmp_path)
    assert later == [{"country": word, "n": 5}, {"country": "ES", "n": None}]


def test_separators_and_headers_are_found(tmp_path):
    text = 'city;n\nOslo;1\n"Trond;heim";2\n'
    proposal = proposed(text)
    assert read_by(proposal, text, tmp_path)[1] == {"city": "Trond;heim", "n": 2}
    assert proposed("a\tb\n1\t2\n", "x.tsv").read.separator == "\t"
    bare = proposed("Oslo,1\nBergen,2\n")
    assert (bare.read.header, list(kinds(bare))) == (False, ["column_1", "column_2"])
    assert read_by(bare, "Oslo,1\nBergen,2\n", tmp_path)[0] == {"column_1": "Oslo", "column_2": 1}


def test_names_that_stand_twice_or_nowhere_are_mended(tmp_path):
    text = "a,,A\n1,2,3\n"
    proposal = proposed(text, header=True)
    assert list(kinds(proposal)) == ["a", "column_2", "A_2"]
    assert len([note for note in proposal.notes if "header" in note]) == 2


def test_columns_that_tell_the_rows_apart_are_named_and_not_taken_for_the_key():
    proposal = proposed("city,day,n\nA,2025-01-01,1\nA,2025-01-02,1\nB,2025-01-01,1\n")
    assert proposal.key == ()
    assert any("--key city --key day" in note for note in proposal.notes)


def test_no_key_is_proposed_for_rows_that_were_not_all_looked_at():
    proposal = proposed(CITIES + "3,Trondheim,1997-01-01,,false\n4,Mo", is_whole=False)
    assert proposal.key == ()
    assert any("--key id" in note for note in proposal.notes)


def test_a_key_that_two_rows_share_is_refused():
    with refusing("UnusableChoice", match="rows 1 and 2 have the same key"):
        proposed("id,n\n1,1\n1,2\n", key=("id",))
    with refusing("UnusableChoice", match="row 2 has no value"):
        proposed("id,n\n1,1\n,2\n", key=("id",))


@pytest.mark.parametrize(
    ("choices", "error"),
    [
        ({"key": ("absent",)}, "UnusableChoice"),
        ({"event_time": "absent"}, "UnusableChoice"),
        ({"types": {"absent": "String"}}, "UnknownColumn"),
        ({"types": {"id": "Money"}}, "UnknownColumn"),
        ({"merge": "snapshot", "key": ()}, "UnusableChoice"),
        ({"merge": "append", "key": ("id",)}, "UnusableChoice"),
        ({"name": "no name!"}, "UnknownFormat"),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices, error):
    with refusing(error):
        proposed(CITIES, **choices)


def test_a_person_decides_otherwise(tmp_path):
    proposal = proposed(
        CITIES, types={"id": "String"}, key=("city",), merge="snapshot", event_time=""
    )
    assert kinds(proposal)["id"] == "String"
    assert (proposal.key, proposal.event_time) == (("city",), None)
    assert read_by(proposal, CITIES, tmp_path)[0]["id"] == "1"


def test_columns_that_every_dataset_has_itself_get_other_names():
    proposal = proposed("op,offset,n\nx,a,1\ny,b,2\n")
    vocab = proposal.snapshot().metadata[1]
    assert (vocab.operation_type_column, vocab.offset_column) == ("_op", "_offset")


JSON_ROWS = [
    {"id": 1, "at": "2025-12-31T00:00:00Z", "tags": ["a"], "where": {"x": 1.5}, "n": 1},
    {"id": 2, "at": "2026-01-01T00:00:00Z", "tags": [], "where": {"x": 2.5}, "n": 1.5},
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(JSON_ROWS)),
        ("a.ndjson", "\n".join(map(json.dumps, JSON_ROWS))),
        ("a.jsonl", "\n".join(map(json.dumps, JSON_ROWS)) + "\n"),
    ],
)
def test_records_of_json_are_looked_at(tmp_path, name, text):
    proposal = proposed(text, name)
    assert kinds(proposal) == {
        "id": "Int64",
        "at": "Timestamp",
        "tags": "nested",
        "where": "nested",
        "n": "Float64",
    }
    rows = read_by(proposal, text, tmp_path)
    assert (rows[0]["tags"], rows[1]["where"]) == (["a"], {"x": 2.5})


def test_features_are_looked_at(tmp_path):
    features = [
        {
            "type": "Feature",
            "properties": {"id": at, "day": "31.12.2025"},
            "geometry": {"type": "Point", "coordinates": [1, at]},
        }
        for at in range(3)
    ]
    text = json.dumps({"type": "FeatureCollection", "features": features})
    proposal = proposed(text, "a.geojson")
    assert kinds(proposal) == {"id": "Int64", "day": "String", "geometry": "String"}
    assert len(read_by(proposal, text, tmp_path)) == 3


def test_a_document_that_goes_on_behind_the_sample_is_looked_at_up_to_its_cut():
    proposal = proposed('[{"a": 1}, {"a": 2, "b": "x"}, {"a": 3, "b": "y', "a.json", is_whole=False)
    assert (kinds(proposal), proposal.looked_at) == ({"a": "Int64", "b": "String"}, 2)
    with pytest.raises(NoRecords):
        proposed("[{", "a.json", is_whole=False)


def zipped(method=zipfile.ZIP_STORED, /, **files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("cities.csv.gz", gzip.compress),
        ("cities.csv.bz2", bz2.compress),
        ("cities.csv.zst", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
        ("cities.zip", lambda data: zipped(cities_csv=data)),
        ("cities.zip", lambda data: zipped(zipfile.ZIP_BZIP2, cities_csv=data)),
    ],
)
def test_packed_files_are_looked_into(name, pack):
    proposal = propose(sample_of(name, pack(CITIES.encode()), is_whole=True))
    assert (proposal.name, proposal.key, proposal.is_whole) == ("cities", ("id",), True)
    packed = pack(b"id,n\n" + b"".join(b"%d,5\n" % at for at in range(9000)))
    few = propose(sample_of(name, packed, is_whole=True, most=1000))
    assert not few.is_whole
    assert few.looked_at < 400


def test_a_sample_that_ends_in_a_packed_file_is_no_damage():
    rows = b"id,n\n" + b"".join(b"%d,%d\n" % (at, at * 7919 % 10_007) for at in range(200_000))
    for name, packed in (
        ("a.csv.gz", gzip.compress(rows)),
        ("a.csv.bz2", bz2.compress(rows)),
        ("a.csv.zst", pa.compress(rows, codec="zstd", asbytes=True)),
    ):
        proposal = propose(sample_of(name, packed[: len(packed) // 2], is_whole=False))
        assert (kinds(proposal), proposal.is_whole) == ({"id": "Int64", "n": "Int64"}, False)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.xlsx", b"hello", "UnknownFormat"),
        ("a.shp", b"hello", "UnknownFormat"),
        ("a.csv.gz", b"\x1f\x8bnonsense", "DamagedPacking"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfdnonsense", "DamagedPacking"),
        ("a.zip", b"PK\x03\x04nonsense", "DamagedPacking"),
        ("a.zip", zipped(a_csv="x", b_csv="y"), "DamagedPacking"),
        ("a.zip", zipped(zipfile.ZIP_LZMA, a_csv="a,b\n1,2\n"), "DamagedPacking"),
        ("a.csv", b"", "NoRecords"),
        ("a.csv", b"a,b\n1,2\n1\n3,4\n", "NoRecords"),
        ("a.csv", "name\ncaf\xe9\n".encode("latin-1"), "NotUtf8"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16-le"), "NotUtf8"),
        ("a.json", b"{}", "NoRecords"),
        ("a.json", b"[" * 100_000, "NoRecords"),
        ("a.ndjson", b'{"a": 1}\n{"a":', "NoRecords"),
        ("a.ndjson", b'{"a\\u0000": 1}\n', "NoRecords"),
        ("a.geojson", b'{"features": [{}]}', "NoRecords"),
    ],
)
def test_files_that_cannot_be_looked_at_say_why(name, data, error):
    with refusing(error):
        propose(sample_of(name, data, is_whole=True))


def test_an_archive_may_be_larger_than_its_table_of_contents():
    noise = random.Random(1).randbytes(DIRECTORY_BYTES).hex()
    rows = "n,s\n" + "".join(f"{n},{noise[n : n + 60]}\n" for n in range(0, len(noise), 60))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", rows)
    assert len(out.getvalue()) > DIRECTORY_BYTES
    sample = sample_of("a.zip", out.getvalue(), is_whole=True)
    assert rows.startswith(sample.data.decode())
    assert [one.name for one in propose(sample).columns] == ["n", "s"]


def test_an_archive_of_too_many_names_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(6_000):
            archive.writestr("x" * 150 + str(number), b"")
    with refusing("DamagedPacking", match="table of contents"):
        sample_of("a.zip", out.getvalue(), is_whole=True)


def test_a_sample_of_a_short_archive_takes_little_memory_however_much_it_holds():
    body = zipped(zipfile.ZIP_BZIP2, a_csv=bytes(64 << 20))
    tracemalloc.start()
    try:
        sample = sample_of("a.zip", body, is_whole=True, most=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert (len(sample.data), sample.is_whole) == (1 << 20, False)


def test_text_in_another_encoding_names_its_line():
    with refusing("NotUtf8", match=r"line 2 of a\.csv"):
        proposed("name\ncaf\xe9\n".encode("latin-1"), "a.csv")


def test_a_manifest_says_what_was_seen_and_reads_back_as_proposed():
    proposal = proposed(CITIES, "cities.csv", description="header: true\n- name: id")
    text = to_manifest(proposal, "cities.csv")
    assert load_snapshots(text) == [proposal.snapshot()]
    assert "name: city  # Oslo, Bergen" in text
    assert "# the first line holds the names" in text


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=6))
def test_a_proposal_for_hostile_cells_is_a_valid_manifest_or_a_refusal(rows):
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    try:
        proposal = proposed(out.getvalue())
    except NodeError:
        return
    snapshot = proposal.snapshot()
    assert load_snapshots(to_manifest(proposal, "file.csv")) == [snapshot]
    vocab = [Vocab.of(event) for event in snapshot.metadata if isinstance(event, SetVocab)]
    for event in snapshot.metadata:
        check_definition(event, *vocab or [Vocab()])


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["a.csv", "a.json", "a.ndjson", "a.gz", "a.zip"]))
def test_bytes_of_strangers_are_refused_or_looked_at(data, name):
    with contextlib.suppress(NodeError):
        propose(sample_of(name, data, is_whole=True, most=1000))
