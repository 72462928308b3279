#!/bin/bash
# DuckDB queries Arrow tables of the same process without a copy, by their names in Python or by register(). It hands the filter to pyarrow, which orders floats in another way
# than DuckDB does, and does not apply it again afterwards. So the rows of one table are others than those of its copy in DuckDB: `x > 1` loses NaN, which
# is greater than all numbers in DuckDB; `x <= 'nan'::DOUBLE` gives a row in which x is null, for which no filter is true; `x in (0.0, 7.0)` loses -0.0, which `x = 0.0` finds.
# With SET disabled_optimizers = 'filter_pushdown' both are the same. Versions: duckdb 1.5.5, pyarrow 26.0.1.
# The guess: an Arrow table is asked as a table of DuckDB is, only without a copy. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install duckdb==1.5.5 pyarrow==26.0.1
v/bin/python - <<'P'
import sys
import duckdb
import pyarrow as pa
arrow = pa.table({"id": [0, 1, 2, 3, 4], "x": pa.array([0.0, -0.0, 5.0, float("nan"), None])})
db = duckdb.connect()
db.execute("create table own as from arrow")
def found(table, condition):
    return [row[0] for row in db.sql(f"select id from {table} where {condition} order by id").fetchall()]
wanted = {"x > 1": ([2], [2, 3]), "x <= 'nan'::DOUBLE": ([0, 1, 2, 3, 4], [0, 1, 2, 3]), "x in (0.0, 7.0)": ([0], [0, 1])}
seen = {each: (found("arrow", each), found("own", each)) for each in wanted}
for condition, (by_arrow, by_own) in seen.items():
    print(f"{condition}: rows {by_arrow} of the Arrow table, {by_own} of its copy")
db.execute("set disabled_optimizers = 'filter_pushdown'")
print("without filters that are handed on:", same := all(found("arrow", each) == found("own", each) for each in wanted))
print("guess: the same rows of both")
sys.exit(not (seen == wanted and same))
P
