#!/bin/bash
# ClickHouse (chdb) has no null for lists and maps, and reads a null of a file as an empty one: a row without an answer and a row with no items are the same, isNull() is
# false for both, and a file written from it has no null any more. What becomes of a null struct depends on the file: from Arrow it is null, from Parquet a struct of nulls,
# from the same table. A time of day is Time64 from Arrow, and a moment on 1970-01-01 in UTC from Parquet. Numbers, texts and booleans keep their nulls.
# The guess: a type that cannot hold null is an error, and one table is one table in both formats. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install chdb==4.4.0 pyarrow==26.0.1
v/bin/python - <<'P'
import datetime, json, sys
import chdb, pyarrow as pa, pyarrow.parquet
table = pa.table({
    "n": [1, 2, 3], "list": [["a"], [], None], "struct": [{"x": 1}, {"x": None}, None], "time": [datetime.time(1, 2, 3)] * 3,
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())), "whole": [1, 0, None],
})
pyarrow.parquet.write_table(table, "a.parquet")
with pa.ipc.new_file("a.arrow", table.schema) as file:
    file.write_table(table)
def asked(sql):
    return json.loads(str(chdb.query(sql, "JSON")))["data"]
found = {}
for name, form in (("a.parquet", "Parquet"), ("a.arrow", "Arrow")):
    rows = asked(f"select *, isNull(list) as missing from file('{name}', '{form}') order by n")
    found[form] = {key: [row[key] for row in rows] for key in ("list", "struct", "map", "whole", "missing", "time")}
    print(f"{form}:", found[form])
chdb.query("select list from file('a.parquet', 'Parquet') order by n into outfile 'b.parquet' format Parquet")
again = pyarrow.parquet.read_table("b.parquet")["list"].null_count
print("ClickHouse", asked("select version() as v")[0]["v"], "nulls among the lists that it writes again:", again)
print("guess: the last list, struct and map are null; one time in both")
same = {"list": [["a"], [], []], "map": [{"k": 1}, {}, {}], "whole": [1, 0, None], "missing": [0, 0, 0]}
of_parquet, of_arrow = found["Parquet"], found["Arrow"]
plain = json.loads(json.dumps([{key: of[key] for key in same} for of in (of_parquet, of_arrow)]).replace('"1"', "1").replace('"0"', "0"))
sys.exit(not (plain == [same, same] and again == 0 and of_parquet["struct"][2] is not None and of_arrow["struct"][2] is None
              and of_parquet["time"][0].startswith("1970-01-01") and not of_arrow["time"][0].startswith("1970")))
P
