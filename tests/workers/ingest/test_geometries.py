"""Geometries are texts (GeoJSON, shapefiles) or bytes (GeoParquet); no slice marks them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.workers.datasets import bench_without_engine, created, upload
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData
from odf_protocol.metadata.sources import ReadStepParquet
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.jobs.ingest.run import run_ingest

NOW = Instant.parse("2050-01-01T12:00:00Z")
POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
GEO = {
    "version": "1.1.0",
    "primary_column": "geometry",
    "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}},
}


def geoparquet(*, with_geo: bool) -> bytes:
    """A row with a point, as GeoPandas and GDAL write it, or without the metadata."""
    marks = {"ARROW:extension:name": "geoarrow.wkb"} if with_geo else None
    field = pa.field("geometry", pa.binary(), metadata=marks)
    metadata = {"geo": json.dumps(GEO)} if with_geo else None
    schema = pa.schema([("id", pa.int64()), field], metadata=metadata)
    sink = io.BytesIO()
    pq.write_table(pa.table([[1], [POINT]], schema=schema), sink)
    return sink.getvalue()


def test_slices_of_geoparquet_files_are_one_table_with_those_of_others(tmp_path: Path) -> None:
    """DuckDB 1.5 reads no table of which some files have the metadata of GeoParquet."""
    stores = throwaway_stores()
    dataset = created(stores, read=ReadStepParquet())
    bench = bench_without_engine(stores, tmp_path)
    for with_geo in (True, False, True):
        body = geoparquet(with_geo=with_geo)
        run_ingest(dataset, upload(stores, dataset, body), bench, now=NOW)
    files = []
    for block in dataset.blocks():
        if isinstance(block.event, AddData) and block.event.new_data is not None:
            with dataset.open_object(ObjectKind.DATA, block.event.new_data.physical_hash) as stream:
                files.append(tmp_path / f"{len(files)}.parquet")
                files[-1].write_bytes(stream.read())
    found = [pq.ParquetFile(file) for file in files]
    assert [b"geo" in (each.metadata.metadata or {}) for each in found] == [False] * 3
    assert {each.schema_arrow.field("geometry").type for each in found} == {pa.binary()}
    rows = duckdb.sql(f"select geometry from read_parquet({list(map(str, files))})").fetchall()
    assert rows == [(POINT,)] * 3
