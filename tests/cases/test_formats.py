"""Cases of files in the forms that publishers give them, each by its number."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, now
from throwaway import throwaway_stores
from web_server import Answer, web_server

from odf_protocol.codec.manifests import from_data, load_snapshots
from odf_protocol.metadata.sources import FetchStepUrl, ReadStep
from odf_protocol.sources.csv_header import HeaderMismatch
from odf_storage.datasets.job_payloads.poll_job import PollPayload, PollReceipt
from odf_workers.readers.formats.plain import plain_file
from odf_workers.readers.formats.read import open_frame
from odf_workers.slices.schema import BadRow, Frame, Limits

CASES = Path(__file__).parents[1] / "vectors" / "cases"
CASE_16 = "16-html-page-as-csv"
CASE_17 = "17-zip-macosx"
CASE_23 = "23-partial-page"


def optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": {"kind": "Option", "inner": kind}}


def opened(file: Path, scratch: Path, kind: str, **options: Any) -> Frame:
    """Open a file as a worker does."""
    step: ReadStep = from_data({"kind": kind, **options}, ReadStep)
    plain = plain_file(file, step, scratch, Limits())
    frame = open_frame(plain.step, plain.content, Limits())
    assert frame is not None
    return replace(frame, warnings=[*plain.warnings, *frame.warnings])


def rows_of(name: str, scratch: Path, kind: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = opened(CASES / name, scratch, kind, **options).table().to_pylist()
    return rows


def source_of(name: str, manifest: str) -> Any:
    (snapshot,) = load_snapshots((CASES / name / manifest).read_bytes())
    return next(e for e in snapshot.metadata if type(e).__name__.endswith("Source"))


def polled(source: Any, folder: Path, answer: Answer) -> PollReceipt:
    """Poll a source whose server gives this answer."""
    from msgspec.structs import replace as changed

    from odf_workers.fetch.values import FetchRules
    from odf_workers.jobs.sources.poll import run_poll

    folder.mkdir(exist_ok=True)
    stores = throwaway_stores()
    bench = bench_without_engine(stores, folder)
    rules = FetchRules(networks=("127.0.0.0/8",), resolve=lambda host, port: ["127.0.0.1"])
    bench = replace(bench, polls=replace(bench.polls, fetch=rules))
    with web_server(lambda _: answer) as server:
        fetch = FetchStepUrl(url=f"http://srv.test:{server.port}/x")
        dataset = created(stores, source=changed(source, fetch=fetch))
        return run_poll(dataset, PollPayload(), bench, now=now())


def test_case_09_figures_with_leading_zeros_are_no_numbers_that_nobody_declared(
    tmp_path: Path,
) -> None:
    from odf_workers.readers.values.features import Known

    name = "09-json-text-code"
    (field, *_) = opened(CASES / name / "1.ndjson", tmp_path, "NdJson").schema
    assert field.type == pa.string()
    known = Known({field.name: field.with_type(pa.int64())}, "event_time")
    step: ReadStep = from_data({"kind": "NdJson"}, ReadStep)
    frame = open_frame(step, CASES / name / "2.ndjson", Limits(), None, known)
    assert frame is None or frame.schema.field(0).type == pa.string()
    table = tmp_path / "fips.csv"
    table.write_text(f"{field.name}\n01067\n")
    frame = open_frame(
        from_data({"kind": "Csv", "header": True}, ReadStep), table, Limits(), None, known
    )
    assert frame is not None
    with pytest.raises(BadRow, match="line 2"):
        frame.table()


def test_case_14_a_json_fraction_is_no_whole_number(tmp_path: Path) -> None:
    source = source_of("14-json-fraction-for-integer", "i.yaml")
    frame = open_frame(source.read, CASES / "14-json-fraction-for-integer/i.ndjson", Limits())
    assert frame is not None
    with pytest.raises(BadRow, match=r"line 1, column `a`: not a value of type Int64: .*1\.7"):
        frame.table()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[{"a":1},{"a":1.7}]', "line 1, record 2, column `a`: not a value of type Int64"),
        ('[{"a":1},5]', "line 1, record 2: a record must be a JSON object"),
        ('[{"a":1},{"a":}]', "line 1, record 2: not JSON"),
        ('[{"a":1},\n{"a":2},{"a":"x"}]', "line 2, record 3, column `a`"),
    ],
)
def test_a_bad_value_of_a_document_of_one_line_is_told_with_its_record(
    tmp_path: Path, text: str, where: str
) -> None:
    file = tmp_path / "one.json"
    file.write_text(text)
    schema = {"fields": [optional("a", "Int64")]}
    with pytest.raises(BadRow) as told:
        opened(file, tmp_path, "Json", schema=schema).table()
    assert told.value.message.startswith(where)


def test_case_15_a_count_of_seconds_is_no_time_of_january_1970(tmp_path: Path) -> None:
    file = CASES / "15-json-epoch-seconds/e.ndjson"
    frame = open_frame(source_of("15-json-epoch-seconds", "e.yaml").read, file, Limits())
    assert frame is not None
    with pytest.raises(BadRow, match="January 1970; the attribute odf-node/epoch"):
        frame.table()
    fields = [optional("id", "Int64"), optional("at", "Timestamp")]
    schema = {"fields": fields, "extra": {"odf-node/epoch": "s"}}
    (row,) = opened(file, tmp_path, "NdJson", schema=schema).table().to_pylist()
    assert row["at"] == datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", None),
        ("text/html; charset=utf-8", b"please,log in\n1,2\n"),
        ("text/csv", b"\xef\xbb\xbf \n<!DOCTYPE html>\n<html></html>"),
        ("text/plain", b"<!-- gone --><HTML lang='de'>\n"),
        ("application/octet-stream", "\ufeff<html>".encode("utf-16-le")),
        ("text/csv", b"<?xml version='1.0'?>\n<Error><Code>AccessDenied</Code></Error>\n"),
    ],
)
@pytest.mark.parametrize("kind", ["Csv", "NdJson"])
def test_case_16_a_web_page_is_no_data(
    tmp_path: Path, kind: str, content_type: str, body: bytes | None
) -> None:
    source = source_of(CASE_16, "feed.yaml")
    if kind == "NdJson":
        from msgspec.structs import replace as changed

        source = changed(source, read=from_data({"kind": kind}, ReadStep))
    page = (CASES / CASE_16 / "page.html").read_bytes()
    with refusing("WebPage", match=r"the source answers with (a web page|an XML document)"):
        polled(source, tmp_path, Answer(200, {"Content-Type": content_type}, body or page))


@pytest.mark.parametrize(
    "body",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        b"%PDF-1.7\n1,2\n",
        b'{"error":"gone","status":404}\n',
        b'[\n{"a":1,"b":2},\n{"a":3,"b":4}\n]\n',
    ],
)
def test_case_16_what_is_no_csv_is_not_read_as_such(tmp_path: Path, body: bytes) -> None:
    with refusing("WebPage", match="which the reader does not take for rows"):
        polled(source_of(CASE_16, "feed.yaml"), tmp_path, Answer(200, {}, body))


def test_case_16_data_that_a_server_calls_a_page_is_taken_if_the_source_says_so(
    tmp_path: Path,
) -> None:
    from msgspec.structs import replace as changed

    answer = Answer(200, {"Content-Type": "text/html"}, b"a\n1\n")
    schema = {"fields": [optional("a", "Int64")], "extra": {"odf-node/contentType": "any"}}
    read = from_data({"kind": "Csv", "header": True, "schema": schema}, ReadStep)
    source = changed(source_of(CASE_16, "feed.yaml"), read=read)
    assert polled(source, tmp_path, answer).rows_added == 1
    lines = changed(source, read=from_data({"kind": "NdJson"}, ReadStep))
    answer = Answer(200, {"Content-Type": "text/html"}, b'{"a":1}\n')
    assert polled(lines, tmp_path / "2", answer).rows_added == 1


def test_case_17_litter_of_macos_is_no_entry_of_an_archive(tmp_path: Path) -> None:
    feed = CASES / CASE_17 / "feed.zip"
    source = source_of(CASE_17, "feed.yaml")
    assert polled(source, tmp_path, Answer(200, {}, feed.read_bytes())).rows_added == 3
    step = source.read
    assert plain_file(feed, step, tmp_path / "posted", Limits()).content != feed


def test_case_18_a_feature_keeps_its_identifier(tmp_path: Path) -> None:
    rows = rows_of("18-geojson-feature-id/quakes.geojson", tmp_path, "GeoJson")
    assert [row["id"] for row in rows] == ["us1", "us2"]


@pytest.mark.parametrize(
    ("feature", "record", "warned"),
    [
        ({"id": 7, "properties": {"id": 7}}, {"id": 7}, False),
        ({"id": 7, "properties": {"id": 8}}, {"id": 8, "feature_id": 7}, True),
        ({"properties": {"geometry": "round"}}, {"_geometry": "round"}, True),
        ({"properties": None, "id": "x"}, {"id": "x"}, False),
        ({"properties": {"id": None}, "id": "x"}, {"id": None, "feature_id": "x"}, True),
    ],
)
def test_case_18_nothing_of_a_feature_is_hidden_by_another_part(
    tmp_path: Path, feature: dict[str, Any], record: dict[str, Any], warned: bool
) -> None:
    file = tmp_path / "f.ndjson"
    file.write_text(json.dumps({"type": "Feature", "geometry": None, **feature}) + "\n")
    fields = [
        optional(name, "Int64" if type(value) is int else "String")
        for name, value in record.items()
    ]
    frame = opened(
        file, tmp_path, "NdGeoJson", schema={"fields": [*fields, optional("geometry", "String")]}
    )
    assert frame.table().to_pylist() == [{**record, "geometry": None}]
    frame = opened(
        file, tmp_path, "NdGeoJson", schema={"fields": [*fields, optional("geometry", "String")]}
    )
    list(frame.batches)
    assert bool(frame.names.warnings()) == warned


def test_case_18_members_of_features_that_are_not_stored_are_told(tmp_path: Path) -> None:
    feature = {"type": "Feature", "geometry": None, "properties": {"n": 1}, "bbox": [1, 2, 3, 4]}
    for kind, told in (("a", []), ("b", ["`links`, `when`"])):
        more = {"when": 5, "links": []} if told else {}
        file = tmp_path / kind
        file.write_text(json.dumps({**feature, **more}) + "\n")
        frame = opened(file, tmp_path, "NdGeoJson")
        list(frame.batches)
        assert [told[0] in each for each in frame.names.warnings()] == [True] * len(told)


def test_case_18_a_schema_without_the_identifier_is_told_of_it(tmp_path: Path) -> None:
    file = CASES / "18-geojson-feature-id/quakes.geojson"
    schema = {"fields": [optional("mag", "Float64"), optional("geometry", "String")]}
    frame = opened(file, tmp_path, "GeoJson", schema=schema)
    list(frame.batches)
    (told,) = frame.names.warnings()
    assert "not stored: `id`, `time`" in told


def test_case_19_heights_of_shapes_are_kept(tmp_path: Path) -> None:
    row, *_ = rows_of("19-shapefile-z/pz.zip", tmp_path, "EsriShapefile")
    assert json.loads(row["geometry"])["coordinates"] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"@odata.nextLink": "http://x"}, "@odata.nextLink"),
        ({"exceededTransferLimit": True}, "exceededTransferLimit"),
        ({"exceededTransferLimit": False, "next": None, "links": {"next": ""}}, None),
        ({"links": {"next": "http://x"}}, "links.next"),
        ({"links": [{"rel": "self"}, {"rel": "next", "href": "x"}]}, "links"),
        ({"meta": {"pagination": {"total": 2}}}, "meta.pagination.total"),
        ({"numberMatched": 2}, "numberMatched"),
        ({"total": 1, "count": 1}, None),
        ({"totalResults": 3, "total": 1.5}, "totalResults"),
        ({"nextPageToken": "x"}, "nextPageToken"),
        ({"nextRecordsUrl": "/x"}, "nextRecordsUrl"),
        ({"done": False}, "done"),
        ({"last": True, "totalPages": 1, "done": True}, None),
        ({"meta": {"current_page": 1, "last_page": 5}}, "meta.last_page"),
        ({"total_pages": 2}, "total_pages"),
        ({"total": {"value": 2, "relation": "eq"}}, "total.value"),
        ({"incomplete_results": True}, "incomplete_results"),
        ({"__next": "http://x"}, "__next"),
        ({"LastEvaluatedKey": {"id": 1}}, "LastEvaluatedKey"),
        ({"offset": "itrQ/rec"}, "offset"),
        ({"remark": "runtime error: Query timed out"}, "remark"),
        ({"offset": "10", "remark": "good"}, None),
        ({"title": "next"}, None),
    ],
)
@pytest.mark.parametrize("kind", ["Json", "GeoJson"])
def test_case_23_a_page_of_several_is_warned_of(
    tmp_path: Path, kind: str, beside: dict[str, Any], named: str | None
) -> None:
    feature = {"type": "Feature", "properties": {"Id": 1}, "geometry": None}
    rows = {"value": [{"Id": 1}]} if kind == "Json" else {"features": [feature]}
    file = tmp_path / "page.json"
    for document in ({**rows, **beside}, {**beside, **rows}):
        file.write_text(json.dumps({"type": "FeatureCollection", **document}))
        options = {"subPath": "value"} if kind == "Json" else {}
        frame = opened(file, tmp_path, kind, **options)
        list(frame.batches)
        told = frame.names.warnings()
        assert [f"`{named}`" in text for text in told] == ([True] if named else [])


def test_case_23_the_receipt_of_a_poll_has_the_hints(tmp_path: Path) -> None:
    page = (CASES / CASE_23 / "page.json").read_bytes()
    link = {"Link": '<http://x/2>; rel="next"'}
    told = polled(source_of(CASE_23, "feed.yaml"), tmp_path, Answer(200, link, page)).warnings
    (of_header, of_document) = told
    assert "Link of rel=next" in of_header
    assert "@odata.nextLink" in of_document


def test_case_25_whole_numbers_of_more_than_64_bits_keep_their_digits(tmp_path: Path) -> None:
    file = "25-json-long-integers/b.json"
    names = list(rows_of(file, tmp_path, "Json")[0])
    digits = json.loads((CASES / file).read_text())
    inferred = opened(CASES / file, tmp_path, "Json").schema
    assert pa.decimal128(38, 0) in inferred.types
    for kind in ("String", {"kind": "Decimal", "precision": 38, "scale": 0}):
        long = {name for name in names if any(int(row[name]) >= 2**63 for row in digits)}
        fields = [optional(name, kind if name in long else "Int64") for name in names]
        rows = rows_of(file, tmp_path, "Json", schema={"fields": fields})
        assert [[str(value) for value in row.values()] for row in rows] == [
            [str(row[name]) for name in names] for row in digits
        ]


def test_case_26_only_line_feeds_end_lines(tmp_path: Path) -> None:
    (row, *_) = rows_of("26-ndjson-line-separator/l.ndjson", tmp_path, "NdJson")
    assert any("\u2028" in str(value) for value in row.values())
    file = tmp_path / "l.ndjson"
    for sign in ("\u2028", "\u2029", "\u0085"):
        file.write_text(f'{{"a":"x{sign}y"}}\n', encoding="utf-8")
        assert opened(file, tmp_path, "NdJson").table().num_rows == 1
        file.write_text(f'skipped\na,b\n"x{sign}y",1\n', encoding="utf-8")
        schema = {"fields": [optional("a", "String"), optional("b", "Int64")]}
        schema = {**schema, "extra": {"odf-node/skipLines": 1}}
        (row,) = opened(file, tmp_path, "Csv", header=True, schema=schema).table().to_pylist()
        assert row == {"a": f"x{sign}y", "b": 1}


def test_case_27_a_long_cell_is_read(tmp_path: Path) -> None:
    rows = rows_of("27-csv-large-cell/wkt.csv", tmp_path, "Csv", header=True)
    assert max(len(str(value)) for row in rows for value in row.values()) > 131_072


def test_case_28_a_feature_without_a_place_is_a_row(tmp_path: Path) -> None:
    rows = rows_of("28-geojson-null-geometry/g.geojson", tmp_path, "GeoJson")
    assert [row["geometry"] is None for row in rows] == [True, False]


def test_case_29_a_time_without_seconds_is_a_time(tmp_path: Path) -> None:
    fields = {"fields": [optional("at", "Timestamp"), optional("v", "Int64")]}
    rows = rows_of("29-time-without-seconds/m.csv", tmp_path, "Csv", header=True, schema=fields)
    assert rows[1]["at"] == datetime(2025, 1, 1, 23, 15, tzinfo=UTC)
    frame = opened(
        CASES / "29-time-without-seconds/m.csv", tmp_path, "Csv", header=True, inferSchema=True
    )
    assert pa.types.is_timestamp(frame.schema.field("at").type)


@pytest.mark.parametrize(
    ("line", "is_row"),
    [
        ("8,q", True),
        ("8,", True),
        ("id,q", False),
        ("x,8", False),
        (",q", False),
        ("2020,b", False),
    ],
)
def test_case_30_a_first_line_that_may_be_a_row_is_no_header(
    tmp_path: Path, line: str, is_row: bool
) -> None:
    file = tmp_path / "f.csv"
    file.write_text(f"{line}\n9,r\n")
    schema: dict[str, Any] = {"fields": [optional("a", "Int64"), optional("b", "String")]}
    schema["extra"] = {"odf-node/thousands": ","}
    if is_row:
        with pytest.raises(HeaderMismatch, match="the first line may be a row"):
            opened(file, tmp_path, "Csv", header=True, schema=schema)
    assert opened(file, tmp_path, "Csv", header=not is_row, schema=schema).table().num_rows
    schema["extra"] = {"odf-node/csvHeader": "position"}
    assert opened(file, tmp_path, "Csv", header=True, schema=schema).table().num_rows == 1


def test_case_30_a_new_column_is_named(tmp_path: Path) -> None:
    read = source_of("30-csv-new-column", "c.yaml").read
    assert open_frame(read, CASES / "30-csv-new-column/1.csv", Limits()) is not None
    with pytest.raises(HeaderMismatch, match="has a new column `b`, which SetDataSchema"):
        open_frame(read, CASES / "30-csv-new-column/2.csv", Limits())
    fewer = tmp_path / "3.csv"
    fewer.write_text("id\n1\n")
    with pytest.raises(HeaderMismatch, match="lacks the column `a`"):
        open_frame(read, fewer, Limits())
    other = tmp_path / "4.csv"
    other.write_text('"id";"a"\n1;2\n')
    with pytest.raises(HeaderMismatch, match="';' cuts the header into declared names") as refused:
        open_frame(read, other, Limits())
    assert "new column" not in refused.value.message


def test_case_35_utf16_is_read(tmp_path: Path) -> None:
    rows = rows_of("35-utf16-hint/u16.csv", tmp_path, "Csv", header=True)
    assert rows
    assert all("\x00" not in str(value) for row in rows for value in row.values())


def test_case_37_88591_is_an_encoding_of_shapefiles(tmp_path: Path) -> None:
    rows = rows_of("37-shapefile-cpg-88591/cpg88591.zip", tmp_path, "EsriShapefile")
    assert any(not str(value).isascii() for row in rows for value in row.values())


def test_an_archive_of_several_files_is_still_refused(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as out:
        for name in ("a.csv", "b.csv", "__MACOSX/._a.csv", ".DS_Store", "x/Thumbs.db"):
            out.writestr(name, "a\n1\n")
    step: ReadStep = from_data({"kind": "Csv", "header": True}, ReadStep)
    with refusing("MalformedArchive", match="holds 2 files"):
        plain_file(path, step, tmp_path / "s", Limits())
