#!/bin/bash
# pyjstat writes a table as JSON-stat in the order of its rows. It does not sort them into the cube, so rows sorted by time where area is the first column
# give the values of one area to the other, and a table that lacks a row gives fewer values than cells: all after the gap stand one cell early.
# Reading is no better where two dimensions have one label (region of birth, region of residence): the second replaces the first, and half of the key is gone.
# The guess: each value stands in the cell of its row, and a missing row is null or an error. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyjstat==2.4.0 pandas==3.1.1
v/bin/python -W ignore - <<'P'
import json, sys
import pandas
from pyjstat import pyjstat
def written(rows):
    cube = json.loads(pyjstat.Dataset.read(pandas.DataFrame(rows, columns=["area", "time", "value"])).write())
    areas, times = (cube["dimension"][name]["category"]["index"] for name in ("area", "time"))
    assert cube["id"] == ["area", "time"] and cube["size"] == [2, 2]
    cells = [areas[area] * 2 + times[time] for area, time, _ in rows]  # JSON-stat: row-major, the last dimension runs fastest
    return [cube["value"][cell] if cell < len(cube["value"]) else "none" for cell in cells], len(cube["value"])
by_area = [("A", "2020", 1), ("A", "2021", 3), ("B", "2020", 2), ("B", "2021", 4)]
by_time = sorted(by_area, key=lambda row: (row[1], row[0]))
gap = [row for row in by_area if row != ("B", "2020", 2)]
found = {}
for name, rows in (("sorted by area", by_area), ("sorted by time", by_time), ("without B 2020", gap)):
    found[name] = written(rows)
    print(f"{name}: rows {rows}\n  cells of these rows: {found[name][0]}; values in the file: {found[name][1]} of 4")
dimension = {name: {"label": "Region", "category": {"index": index}} for name, index in (("birth", ["N", "S"]), ("home", ["E", "W"]))}
cube = {"version": "2.0", "class": "dataset", "id": ["birth", "home"], "size": [2, 2], "dimension": dimension, "value": [1, 2, 3, 4]}
frame = pyjstat.Dataset.read(json.dumps(cube)).write("dataframe").to_dict("list")
print("birth and home, both labelled Region:", frame)
print("guess: 1 3 2 4, 1 2 3 4, 1 3 4 with a null, and two columns")
sys.exit(not (found == {"sorted by area": ([1, 3, 2, 4], 4), "sorted by time": ([1, 3, 2, 4], 4), "without B 2020": ([1, 3, "none"], 3)}
              and frame == {"Region": ["E", "W", "E", "W"], "value": [1, 2, 3, 4]}))
P
