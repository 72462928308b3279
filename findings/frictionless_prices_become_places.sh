#!/bin/bash
# frictionless, the reference library of Table Schema, infers types from texts that are none of them, and reads the rows so:
# - decimal commas (1,5) are geopoints: a price of 1,50 is a place at longitude 1, latitude 50;
# - ids with an underscore are integers: 1_2 and 12 become the same 12 (Python's int() takes them, Table Schema's integers do not);
# - post codes with a leading zero are integers: 01234 is 1234.
# The guess: texts, or a number of 1.5, or an error. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install frictionless==5.21.0
v/bin/python -W ignore - <<'P'
import sys
from pathlib import Path
from frictionless import Resource
def read(text):
    Path("x.csv").write_text(text)
    with Resource(path="x.csv") as rows:
        found = [row.to_dict() for row in rows.row_stream]
        return {field.name: field.type for field in rows.schema.fields}, found
prices = read("name;price\ntea;1,50\nmilk;2,25\n")
ids = read("id,name\n1_2,first\n12,second\n")
codes = read("code,town\n01234,A\n99999,B\n")
for each in (prices, ids, codes):
    print(*each)
print("guess: texts, or 1.5, or an error")
sys.exit(not (prices[0]["price"] == "geopoint" and list(map(float, prices[1][0]["price"])) == [1, 50] and [row["id"] for row in ids[1]] == [12, 12]
              and codes[1][0]["code"] == 1234))
P
