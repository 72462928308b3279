#!/bin/bash
# fastavro writes numbers that an Avro `int` cannot hold, and reads them back, so its own round trip shows nothing. Polars reads 2147483648 of that file as
# -2147483648, and 1099511627776 as 0. A fraction in an `int` or `long` loses its part behind the point. The same values in an optional
# column (["null", "int"]) are refused, so the looser column is the stricter one.
# The guess: an error, as for a value of another kind. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install fastavro==1.13.1 polars==2.1.0
v/bin/python - <<'P'
import io, sys
import fastavro, polars
def tried(kind, values):
    file = io.BytesIO()
    try:
        fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}), [{"a": each} for each in values])
    except Exception as error:
        return type(error).__name__, "no file"
    own = [row["a"] for row in fastavro.reader(io.BytesIO(file.getvalue()))]
    return own, polars.read_avro(io.BytesIO(file.getvalue()))["a"].to_list()
wide, fraction = [2**31, 2**32 + 7, 2**40], [1.9, -1.9]
found = {}
for name, kind, values in (("int", "int", wide), ("optional int", ["null", "int"], wide), ("long", "long", fraction), ("optional long", ["null", "long"], fraction)):
    found[name] = tried(kind, values)
    print(f"{name:14} {values}: fastavro {found[name][0]}, polars {found[name][1]}")
print("guess: an error for each")
sys.exit(found != {"int": (wide, [-(2**31), 7, 0]), "optional int": ("ValueError", "no file"), "long": ([1, -1], [1, -1]), "optional long": ("ValueError", "no file")})
P
