#!/bin/bash
# pyshp cuts a number that is wider than its column in the table of a shapefile (.dbf) at the right, without a word, so what is left is another number: 123456 in a column of
# five digits is 12345, -98765 is -9876, and 12345.6 in four digits 1234. dBASE fills such a cell with asterisks. Decimals beyond those of the column, of which field() gives
# it none by default, are cut, too: 19.99 becomes 19.
# The guess: an error, asterisks, or rounding to the decimals of the column. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyshp==3.1.6
v/bin/python -W error - <<'P'
import sys
import shapefile
values = [123456, -98765, 12345.6, 19.99]
with shapefile.Writer("a", shapeType=shapefile.POINT) as writer:
    writer.field("five", "N", 5)
    writer.field("four", "N", 4)
    writer.field("plain", "N")
    for value in values:
        writer.point(0, 0)
        writer.record(value, value, value)
with shapefile.Reader("a") as reader:
    found = dict(zip(values, map(list, reader.records())))
print("pyshp", shapefile.__version__)
for value, cells in found.items():
    print(f"  {value} in five digits, four digits, and field() as it is: {cells}")
print("guess: errors or no value for all that do not fit; 12346 and 20")
sys.exit(found != {123456: [12345, 1234, 123456], -98765: [-9876, -987, -98765], 12345.6: [12345, 1234, 12345], 19.99: [19, 19, 19]})
P
