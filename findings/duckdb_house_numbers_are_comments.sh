#!/bin/bash
# DuckDB leaves out rows of a CSV file that begin with # if that makes the first column numbers: of the house numbers #12, 12, #14, 15 two rows are left, and nobody
# is told. The same sign keeps its row where another value is text (#ff0000, blue), within quotes, or in another column, so a file can lose rows when one value
# in it is mended. If the sniffer's sample has no such row, it is an error instead. comment='' gives all rows. DuckDB 2.0.1; 1.5.5 does the same.
# The guess: CSV has no comments unless one asks for them, so the column is text. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
for version in 1.5.5 2.0.1; do
  python3 -m venv "v$version"; "v$version/bin/pip" -q install duckdb==$version polars==2.1.0 pyarrow==26.0.1
  "v$version/bin/python" - <<'P'
import sys
from pathlib import Path
import duckdb, polars, pyarrow.csv
def column(text, **options):
    Path("x.csv").write_text(text)
    return [row[0] for row in duckdb.read_csv("x.csv", **options).fetchall()]
houses = "house,street\n#12,Main\n12,Main\n#14,Main\n15,High\n"
found = {"houses": column(houses), "comment=''": column(houses, comment=""), "quoted": column(houses.replace("#12", '"#12"').replace("#14", '"#14"')),
         "one 15a": column(houses.replace("15", "15a")), "colours": column("colour,n\n#ff0000,1\nblue,2\n#00ff00,3\n")}
Path("x.csv").write_text(houses)
others = [polars.read_csv("x.csv")["house"].to_list(), pyarrow.csv.read_csv("x.csv")["house"].to_pylist()]
print("duckdb", duckdb.__version__)
for name, values in found.items():
    print(f"  {name:10} {values}")
print("  polars and pyarrow:", *others)
print("guess: four rows of text in all but the colours")
whole = ["#12", "12", "#14", "15"]
sys.exit(not (found == {"houses": [12, 15], "comment=''": whole, "quoted": whole, "one 15a": ["#12", "12", "#14", "15a"], "colours": ["#ff0000", "blue", "#00ff00"]}
              and others == [whole, whole]))
P
done
