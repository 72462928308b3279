#!/bin/bash
# A Parquet file of Arrow's writers notes under ARROW:schema how the columns lay in memory. pyiceberg 0.12.0 reads the files of a table by that note, not by the types of Parquet and of
# the Iceberg schema, so whether a table can be read depends on the memory of a program that is long gone: a `string` column in two files, one written from
# `string` and one from `string_view`, ends in "incompatible types"; an instant that was kept with the zone Europe/Berlin ends in "unsupported type", although Parquet stores
# it as it stores any instant. DuckDB 1.5.5 reads the same files, and so does pyarrow itself when it is told the schema.
# The guess: the Iceberg schema says what a column is. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyiceberg==0.12.0 sqlalchemy==2.0.44 pyarrow==26.0.1 duckdb==1.5.5 tzdata pytz
v/bin/python - <<'P' 2>/dev/null
import os, sys
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog
here = os.getcwd()
catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{here}/w")
catalog.create_namespace("n")
cases = {
    "two texts": (pa.string(), [pa.array(["a"]), pa.array(["b"], pa.string_view())]),
    "instant of Berlin": (pa.timestamp("us", "UTC"), [pa.array([0], pa.timestamp("us", "Europe/Berlin"))]),
}
seen = {}
for number, (name, (kind, columns)) in enumerate(cases.items()):
    table = catalog.create_table(f"n.t{number}", pa.schema([("x", kind)]))
    files = []
    for at, column in enumerate(columns):
        files.append(f"{here}/{number}-{at}.parquet")
        pq.write_table(pa.table({"x": column}), files[-1])
    try:
        table.add_files([f"file://{each}" for each in files])
        told = f"{table.scan().to_arrow().num_rows} row(s)"
    except Exception as wrong:
        told = f"{type(wrong).__name__}: {str(wrong)[:90]}"
    rows = duckdb.sql(f"select count(x) from read_parquet({files})").fetchone()[0]
    seen[name] = told.partition(":")[0], rows
    print(f"pyiceberg {pyiceberg.__version__}, {name}: {told}; duckdb reads {rows} row(s)")
print("guess: 2 row(s), 1 row(s)")
sys.exit(seen != {"two texts": ("ArrowTypeError", 2), "instant of Berlin": ("UnsupportedPyArrowTypeException", 1)})
P
