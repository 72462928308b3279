#!/bin/bash
# pyarrow's writer of Parquet has the option store_schema: "the Arrow schema is serialized into the file's metadata, under ARROW:schema". Who leaves that out, for example
# since readers of other languages trip over it, loses the key-value metadata of the schema as well (units, licence, a GeoParquet `geo`): pyarrow 26.0.1 writes no key at all
# and says nothing. Keys that are given to the writer by add_key_value_metadata are kept, with the same option.
# The guess: store_schema decides about the key ARROW:schema, and no other one. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyarrow==26.0.1
v/bin/python - <<'P'
import sys
import pyarrow as pa
import pyarrow.parquet as pq
table = pa.table({"height": [1.5]}).replace_schema_metadata({"unit": "metres"})
found = {}
for stored in (True, False):
    pq.write_table(table, "t.parquet", store_schema=stored)
    found[stored] = sorted(pq.read_metadata("t.parquet").metadata or {})
with pq.ParquetWriter("t.parquet", table.schema, store_schema=False) as writer:
    writer.write_table(table)
    writer.add_key_value_metadata({"unit": "metres"})
added = sorted(pq.read_metadata("t.parquet").metadata or {})
print(f"pyarrow {pa.__version__}: with the schema {found[True]}, without it {found[False]}, without it and added by hand {added}")
print("guess: ['ARROW:schema', 'unit'], ['unit'], ['unit']")
sys.exit(not (found == {True: [b"ARROW:schema", b"unit"], False: []} and added == [b"unit"]))
P
