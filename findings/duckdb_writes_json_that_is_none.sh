#!/bin/bash
# COPY … TO 'x.json' and to_json() of DuckDB write NaN and infinite numbers as NaN, Infinity: no JSON. DuckDB itself reads it back; strict readers
# refuse the whole file, with its other rows, and polars and pyarrow do not agree. DuckDB 1.5.5; 2.0.1 does the same.
# The guess: null, a text, or an error when it is written. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
for version in 1.5.5 2.0.1; do
  python3 -m venv "v$version"; "v$version/bin/pip" -q install duckdb==$version polars==2.1.0 pyarrow==26.0.1 msgspec==0.21.1
  "v$version/bin/python" - <<'P'
import sys
import duckdb, msgspec, polars, pyarrow.json
duckdb.sql("COPY (SELECT * FROM (VALUES (1, 1.5::DOUBLE), (2, 'nan'), (3, 'infinity')) AS t(id, x)) TO 'x.json'")
print("duckdb", duckdb.__version__, open("x.json").read().split("\n"))
said = {}
def tried(name, read):
    try:
        said[name] = read()
    except Exception as error:
        said[name] = type(error).__name__
    print(f"  {name:8}", said[name])
tried("duckdb", lambda: [row[1] for row in duckdb.sql("SELECT * FROM 'x.json' ORDER BY id").fetchall()])
tried("polars", lambda: polars.read_ndjson("x.json")["x"].to_list())
tried("pyarrow", lambda: pyarrow.json.read_json("x.json")["x"].to_pylist())
tried("msgspec", lambda: [msgspec.json.decode(line) for line in open("x.json")])
print("guess: null, a text, or an error when it is written")
sys.exit(not ('"x":NaN' in open("x.json").read() and str(said["duckdb"]) == "[1.5, nan, inf]" and said["msgspec"] == "DecodeError"))
P
done
