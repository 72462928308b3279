#!/bin/bash
# A filter of pyiceberg that compares a column of whole numbers with a fraction is rounded to a whole number first. "id = 1.9" finds the row with 2,
# and "id > 1.5" becomes id > 2, which loses that row; "id < 2.5" becomes id < 2 and loses it too. Means and medians as limits are such fractions.
# The same filter on a decimal column of two digits, "price > 1.005", is an error instead.
# The guess: "id > 1.5" finds 2, and "id = 1.9" finds nothing, as in SQL. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install 'pyiceberg[sql-sqlite]==0.12.0' pyarrow==26.0.1 duckdb==2.0.1
v/bin/python - <<'P'
import sys
from decimal import Decimal
import duckdb, pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("c", uri="sqlite:///c.db", warehouse="file://.")
catalog.create_namespace("n")
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "price": pa.array([Decimal(1)] * 3, pa.decimal128(9, 2))})
table = catalog.create_table("n.t", rows.schema, location=f"file://{__import__('os').getcwd()}/t")
table.append(rows)
found = {}
for text in ("id = 1.9", "id > 1.5", "id < 2.5"):
    found[text] = table.scan(row_filter=text).to_arrow()["id"].to_pylist()
    right = [each for [each] in duckdb.sql(f"SELECT id FROM rows WHERE {text} ORDER BY 1").fetchall()]
    print(f"{text}: {found[text]}, SQL {right}")
try:
    table.scan(row_filter="price > 1.005").to_arrow()
    refused = False
except ValueError as error:
    refused = True
    print("price > 1.005:", error)
print("guess: [], [2, 3], [1, 2]")
sys.exit(not (found == {"id = 1.9": [2], "id > 1.5": [3], "id < 2.5": [1]} and refused))
P
