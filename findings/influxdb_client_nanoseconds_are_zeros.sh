#!/bin/bash
# influxdb-client writes times in nanoseconds, its default, with three zeros at the end: a time with nine digits, as text or as a Timestamp of pandas, is cut to
# microseconds. A series has one point at a time, so of two readings within a microsecond the later one replaces the earlier one in the database. Only a
# number of nanoseconds comes through.
# The guess: what is written with the precision of nanoseconds has nanoseconds. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install influxdb-client==1.50.0 pandas==3.1.1
v/bin/python - <<'P'
import sys
from importlib.metadata import version
import pandas as pd
from influxdb_client import Point, WritePrecision
print("influxdb-client", version("influxdb-client"))
found = {}
for text in ("2026-01-02T00:04:05.123456100Z", "2026-01-02T00:04:05.123456789Z"):
    moment = pd.Timestamp(text)
    for name, time in (("text", text), ("Timestamp", moment), ("number", moment.value)):
        line = Point("m").field("x", 1).time(time, WritePrecision.NS).to_line_protocol()
        found.setdefault(name, []).append(line.split()[-1])
for name, times in found.items():
    print(f"{name:9} {times}: {len(set(times))} point(s)")
print("guess: two points, whatever the time is given as")
one, exact = ["1767312245123456000"] * 2, ["1767312245123456100", "1767312245123456789"]
sys.exit(found != {"text": one, "Timestamp": one, "number": exact})
P
