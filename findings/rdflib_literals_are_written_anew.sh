#!/bin/bash
# rdflib, which catalogues such as CKAN read DCAT by, does not keep literals as they are written; what it serializes afterwards, and compares, is its own form.
# Two dates of different zones, 2024-01-02Z and 2024-01-02+02:00, become one triple without a zone; a time loses its digits below a microsecond, and a duration of
# nanoseconds becomes P0D; a checksum of xsd:hexBinary, whose canonical form has capitals, gets small letters, so it is not found by its text any more.
# Years and decimals stay. pyoxigraph keeps all of them as written.
# The guess: literals are kept as written, and normalized only for comparison. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install rdflib==7.6.0 pyoxigraph==0.5.13
v/bin/python - <<'P'
import sys
import pyoxigraph, rdflib
WRITTEN = {
    "date": ["2024-01-02Z", "2024-01-02+02:00"],
    "dateTime": ["2024-01-02T03:04:05.123456789Z"],
    "duration": ["PT0.000000001S"],
    "hexBinary": ["ABCDEF01"],
    "decimal": ["1.10"],
    "gYear": ["2024"],
}
found, kept = {}, {}
for kind, texts in WRITTEN.items():
    values = ", ".join(f'"{text}"^^<http://www.w3.org/2001/XMLSchema#{kind}>' for text in texts)
    turtle = f"<http://x/a> <http://x/b> {values} ."
    found[kind] = sorted(map(str, rdflib.Graph().parse(data=turtle, format="turtle").objects()))
    parsed = pyoxigraph.parse(turtle, format=pyoxigraph.RdfFormat.TURTLE)
    kept[kind] = [quad.object.value for quad in parsed]
    print(f"{kind}: written {texts}, rdflib {found[kind]}, pyoxigraph {kept[kind]}")
print("guess: as written")
changed = {"date": ["2024-01-02"], "dateTime": ["2024-01-02T03:04:05.123456+00:00"], "duration": ["P0D"], "hexBinary": ["abcdef01"]}
sys.exit(found != {**WRITTEN, **changed} or kept != WRITTEN)
P
