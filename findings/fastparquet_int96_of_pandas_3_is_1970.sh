#!/bin/bash
# fastparquet writes times of pandas 3 as times of January 1970 if they are asked for as INT96, without a word.
# The guess: the time that is in the frame. Its default (int64) is right. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install fastparquet==2026.9.0 pandas==3.1.1 pyarrow==26.0.1
v/bin/python - <<'P'
import fastparquet, pandas, pyarrow.parquet, sys
frame = pandas.DataFrame({"t": [pandas.Timestamp("2020-01-09 01:08:11")]}).astype("datetime64[us]")
found = {}
for times in ("int64", "int96"):
    fastparquet.write("t.parquet", frame, times=times)
    found[times] = str(pyarrow.parquet.read_table("t.parquet")["t"][0])
    print(f"fastparquet 2026.9.0 with pandas 3.1.1, times={times!r}: {found[times]}")
own = str(fastparquet.ParquetFile("t.parquet").to_pandas()["t"][0])
print(f"read by fastparquet itself: {own}")
print("guess: 2020-01-09 01:08:11; microseconds, the unit of pandas 3, are taken for nanoseconds")
sys.exit(not ("2020" in found["int64"] and "1970" in found["int96"] and "1970" in own))
P
