#!/bin/bash
# datafusion 54.1.0 compares two times of different units at the coarser one, and cuts the digits of the other before it compares. A column of milliseconds with
# .123 is equal to a column of microseconds with .123456, to a column of nanoseconds, and to a literal with .123456, and is not less than any of them; so is a column
# of microseconds with one of nanoseconds. A join on such columns pairs rows that are apart, and BETWEEN and IN do it, too. A cast of a column to the finer unit helps
# against another column; against a literal the optimizer takes it away again. Python's datetime, pyarrow and duckdb 1.5.5 compare all digits.
# The guess: times are compared as instants, or at the finer unit. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install datafusion==54.1.0 pyarrow==26.0.1 duckdb==1.5.5 pytz
v/bin/python - <<'P'
import sys
import datafusion, duckdb, pyarrow as pa, pyarrow.compute as pc
second, zone = 1_700_000_000, "UTC"
table = pa.table({
    "millis": pa.array([second * 10**3 + 123], pa.timestamp("ms", zone)),
    "micros": pa.array([second * 10**6 + 123_456], pa.timestamp("us", zone)),
    "nanos": pa.array([second * 10**9 + 123_456_789], pa.timestamp("ns", zone)),
})
context = datafusion.SessionContext()
context.register_record_batches("x", [table.to_batches()])
duck = duckdb.connect()
duck.execute("set timezone = 'UTC'")
duck.register("x", table)
fine = "timestamptz '2023-11-14 22:13:20.123456Z'"
asked = ["millis = micros", "millis < micros", "millis = nanos", f"millis = {fine}", f"millis < {fine}", f"millis in ({fine})"]
asked_of_arrow = {"millis = micros": pc.equal(table["millis"], table["micros"])[0].as_py()}
found = {}
for one in asked:
    of_datafusion = context.sql(f"select {one.replace('timestamptz', 'timestamp')} as r from x").to_pydict()["r"][0]
    found[one] = (of_datafusion, duck.execute(f"select {one} from x").fetchone()[0])
    print(f"{one}: datafusion {found[one][0]}, duckdb {found[one][1]}")
print("micros = nanos: datafusion", context.sql("select micros = nanos as r from x").to_pydict()["r"][0])
print("millis = micros: pyarrow", asked_of_arrow["millis = micros"])
print("guess: false where there is =, true where there is <")
wrong = [one for one, (ours, theirs) in found.items() if ours == (" < " not in one) and theirs != ours]
sys.exit(not (wrong == asked and asked_of_arrow["millis = micros"] is False))
P
