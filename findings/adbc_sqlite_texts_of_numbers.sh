#!/bin/bash
# The ADBC driver for SQLite types a column by its first rows (1,024), as SQLite has values of several types in one column. If one of these is a text, such as "n/a", the numbers
# before it become texts of seven digits: 52.520007 is 5.252001e+01, and 1700000000.123 is 1.700000e+09. If one is a fraction, whole numbers become floats,
# so 2^53 + 1 is its neighbour. A text after the first rows is an error instead. SQLite's own CAST gives 52.520007.
# The guess: texts with all digits, or an error for both. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install adbc-driver-sqlite==1.13.0 pyarrow==26.0.1
v/bin/python - <<'P'
import sqlite3, sys
import adbc_driver_sqlite.dbapi as adbc
def tried(name, values):
    with sqlite3.connect(name) as db:
        db.execute("CREATE TABLE t (a)")
        db.executemany("INSERT INTO t VALUES (?)", [(each,) for each in values])
        own = [each for [each] in db.execute("SELECT CAST(a AS TEXT) FROM t LIMIT 2")]
    db.close()
    try:
        with adbc.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT a FROM t")
            return cursor.fetch_arrow_table()["a"].to_pylist()[:2], own
    except Exception as error:
        return f"{type(error).__name__}: {error}", own
text, own = tried("text", [52.520007, 1700000000.123, "n/a"])
whole, _ = tried("whole", [2**53 + 1, 1.5])
late, _ = tried("late", [52.520007] * 2000 + ["n/a"])
print("floats and a text:", text, "SQLite:", own)
print("2^53 + 1 and a fraction:", whole)
print("a text after 2000 floats:", late)
print("guess: all digits, or an error for each")
sys.exit(not (text == ["5.252001e+01", "1.700000e+09"] and whole == [2.0**53, 1.5] and "Type mismatch" in late))
P
