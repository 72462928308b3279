"""Packed bodies and Arrow streams are read as what is in them."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapefile
from refusals import refusing
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.runtime.command import PrepareLimits
from odf_workers.slices.schema import Limits

NOW = Instant.parse("2050-01-01T00:00:00Z")
CSV = ReadStepCsv(header=True, infer_schema=True)
TABLE = pa.table({"n": [1, 2], "city": ["A", None]})
Rows = list[dict[str, Any]]


@pytest.fixture
def ingested(tmp_path: Path) -> Callable[..., Rows]:
    def run(body: bytes, read: ReadStep, media_type: str | None = None) -> Rows:
        stores = throwaway_stores()
        limits = Limits(archives=PrepareLimits(max_bytes=1 << 20))
        bench = bench_without_engine(stores, tmp_path, limits=limits)
        dataset = created(stores, read=read)
        asked = msgspec.structs.replace(upload(stores, dataset, body), media_type=media_type)
        run_ingest(dataset, asked, bench, now=NOW)
        data = dataset.blocks()[-1].event.new_data  # type: ignore[union-attr]
        with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:  # type: ignore[union-attr]
            found: Rows = pq.read_table(stream).select(["n", "city"]).to_pylist()
        return found

    return run


def zstd(body: bytes) -> bytes:
    packed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    return packed


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def arrow(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


TEXT = b"n,city\n1,A\n2,\n"


@pytest.mark.parametrize("body", [TEXT, gzip.compress(TEXT), zipped(rows=TEXT)])
def test_a_packed_text_is_read_as_the_text(body: bytes, ingested: Any) -> None:
    assert ingested(body, CSV) == TABLE.to_pylist()


def test_an_archive_of_several_files_is_refused(ingested: Any) -> None:
    with pytest.raises(BadInput, match="2 files"):
        ingested(zipped(a=TEXT, b=TEXT), CSV)


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        bz2.compress,
        lambda body: bz2.compress(body[:9]) + bz2.compress(body[9:]),
        zstd,
        lambda body: zstd(body[:9]) + zstd(body[9:]),
        lambda body: zipped(rows=body),
    ],
)
@pytest.mark.parametrize("body", [parquet(TABLE), arrow(TABLE)], ids=["parquet", "arrow"])
def test_packed_parquet_and_arrow_are_read_as_what_is_in_them(
    pack: Any, body: bytes, ingested: Any
) -> None:
    assert ingested(pack(body), ReadStepParquet()) == TABLE.to_pylist()


def shapes() -> bytes:
    parts = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**parts) as out:  # type: ignore[arg-type]
        out.field("n", "N", 10, 0)
        out.field("city", "C", 10)
        for n, city in ((1, "A"), (2, "")):
            out.point(n, n)
            out.record(n, city)
    return zipped(**{f"cities.{suffix}": part.getvalue() for suffix, part in parts.items()})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_shapefile_in_gzip_is_read_as_its_archive(pack: Any, ingested: Any) -> None:
    assert ingested(pack(shapes()), ReadStepEsriShapefile()) == TABLE.to_pylist()


@pytest.mark.parametrize("read", [ReadStepParquet(), ReadStepEsriShapefile()])
def test_what_is_no_file_of_the_format_once_unpacked_is_refused(
    read: ReadStep, ingested: Any
) -> None:
    with pytest.raises(BadInput):
        ingested(gzip.compress(b"PAR1 or PK"), read)
    with refusing("DecompressionTooLarge"):
        ingested(gzip.compress(bytes(2 << 20)), read)


def test_what_unpacks_to_more_than_is_taken_is_refused(ingested: Any) -> None:
    for pack in (gzip.compress, bz2.compress, zstd):
        with refusing("DecompressionTooLarge"):
            ingested(pack(TEXT + b"3,B\n" * 400_000), CSV)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstd])
def test_what_was_cut_while_packed_is_refused(pack: Any, ingested: Any) -> None:
    with refusing("MalformedArchive"):
        ingested(pack(TEXT * 100)[:-8], CSV)


@pytest.mark.parametrize("read", [ReadStepParquet(), ReadStepNdJson()])
def test_an_arrow_stream_is_read_as_parquet_is(read: ReadStep, ingested: Any) -> None:
    for media_type, body in (
        ("application/vnd.apache.arrow.stream", arrow(TABLE)),
        ("application/vnd.apache.arrow.stream", arrow(TABLE.set_column(
            1, "city", TABLE.column("city").dictionary_encode()))),
    ):  # fmt: skip
        assert ingested(body, read, media_type) == TABLE.to_pylist()


def test_parquet_has_two_names(ingested: Any) -> None:
    for media_type in ("application/parquet", "application/vnd.apache.parquet"):
        assert ingested(parquet(TABLE), ReadStepNdJson(), media_type) == TABLE.to_pylist()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_buffers_that_are_packed_inside_of_a_stream_are_refused(
    compression: str, ingested: Any
) -> None:
    bodies = [
        arrow(TABLE, compression=compression),
        arrow(pa.table({"n": pa.array(["x", "x"]).dictionary_encode()}), compression=compression),
    ]
    for body in bodies:
        with pytest.raises(BadInput, match="compressed"):
            ingested(body, ReadStepParquet())


def test_a_damaged_stream_is_refused(ingested: Any) -> None:
    whole = arrow(TABLE)
    for cut in (9, len(whole) // 2, len(whole) - 20):
        with pytest.raises(BadInput):
            ingested(whole[:cut], ReadStepParquet())
    for at in range(8, len(whole), 7):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        try:
            ingested(bytes(broken), ReadStepParquet())
        except (BadInput, KeyError):
            continue


def test_the_size_of_a_parquet_body_is_that_of_its_values(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [7] * 100_000, "city": ["A"] * 100_000}), out := io.BytesIO())
    assert len(out.getvalue()) < 50_000
    stores = throwaway_stores()
    dataset = created(stores, read=ReadStepParquet())
    bench = bench_without_engine(stores, tmp_path)
    receipt = run_ingest(dataset, upload(stores, dataset, out.getvalue()), bench, now=NOW)
    assert receipt.ran is not None
    assert receipt.ran.bytes >= 1_600_000


@pytest.mark.parametrize("read", [ReadStepNdJson(), ReadStepJson()])
def test_records_on_lines_that_are_called_a_document_are_read_as_lines(
    read: ReadStep, ingested: Any
) -> None:
    lines = b'{"n":1,"city":"A"}\r\n\n{"n":2,"city":null}\n'
    for body in (lines, b"\xef\xbb\xbf" + lines, gzip.compress(lines)):
        assert ingested(body, read, "application/json") == TABLE.to_pylist()
    document = b'[{"n":1,"city":"A"},\n{"n":2,"city":null}]'
    assert ingested(document, read, "application/json") == TABLE.to_pylist()
    with pytest.raises(BadInput, match="line 2"):
        ingested(b'{"n":1,"city":"A"}\n{"n":2,"city"\n', read, "application/json")
