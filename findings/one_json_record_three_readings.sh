#!/bin/bash
# A JSON record in which a name stands twice, such as {"a":1,"b":"x","a":2} (RFC 8259 leaves open which value is meant), is another row for each reader of
# tables, and most say nothing. Polars takes the first value, pandas and DataFusion (arrow-rs) the last, pyarrow refuses. DuckDB refuses as well, and with
# ignore_errors=true, which leaves out lines that are broken, it keeps these, with the first value: so what the option lets through
# is neither skipped nor what pandas has. Polars and DataFusion, both on Arrow, sum the same column to 4 and to 7.
# The guess: readers on one memory format agree; ignore_errors skips a line that is refused without it. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install duckdb==1.5.5 polars==2.1.0 datafusion==54.1.0 pyarrow==26.0.1 pandas==2.3.3
v/bin/python - <<'P'
import sys
from pathlib import Path
import datafusion, duckdb, pandas, polars, pyarrow.json
Path("x.ndjson").write_text('{"a":1,"b":"x","a":2}\n{"a":3,"b":"y","a":null}\n{"a":null,"b":"z","a":5}\n')
def column(read):
    try:
        return [None if value != value else value for value in read()]
    except Exception as refused:
        return f"{type(refused).__name__}: {str(refused)[:200]}"
found = {
    "polars": column(lambda: polars.read_ndjson("x.ndjson")["a"].to_list()),
    "pandas": column(lambda: pandas.read_json("x.ndjson", lines=True)["a"].tolist()),
    "datafusion": column(lambda: datafusion.SessionContext().read_json("x.ndjson", file_extension=".ndjson").to_pydict()["a"]),
    "pyarrow": column(lambda: pyarrow.json.read_json("x.ndjson")["a"].to_pylist()),
    "duckdb": column(lambda: [a for a, _ in duckdb.sql("from read_json('x.ndjson')").fetchall()]),
    "duckdb, ignore_errors": column(lambda: [a for a, _ in duckdb.sql("from read_json('x.ndjson', ignore_errors=true)").fetchall()]),
}
for name, values in found.items():
    print(f"{name:<22} {values}")
print("guess: one answer of all that answer; no rows with ignore_errors")
sys.exit(not (found["polars"] == found["duckdb, ignore_errors"] == [1, 3, None] and found["pandas"] == found["datafusion"] == [2, None, 5]
              and "twice" in found["pyarrow"] and "duplicate key" in found["duckdb"]))
P
