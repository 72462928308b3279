#!/bin/bash
# A GeoDataFrame that is written to a file and read back has other columns, without a word:
# - GeoPackage: a column called fid with whole numbers is gone (it became the row id of the table);
# - all formats: True, False and None become the texts "True", "False" and a missing value (True and False alone stay boolean).
# The guess: columns come back, or writing them is an error. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install geopandas==1.2.0 pyogrio==0.13.0 shapely==2.2.0 pandas==3.1.1
v/bin/python -W error - <<'P'
import sys
import geopandas
points = geopandas.points_from_xy([1, 2, 3], [1, 2, 3])
columns = {"fid": [10, 11, 12], "open": [True, False, None], "shut": [True, False, True]}
frame = geopandas.GeoDataFrame(columns, geometry=points, crs=4326)
back = {}
for kind in ("gpkg", "geojson", "fgb"):
    frame.to_file(f"x.{kind}")
    back[kind] = geopandas.read_file(f"x.{kind}")
    print(f"{kind:8}", {name: back[kind][name].tolist() for name in back[kind].columns if name != "geometry"})
print("guess: fid, open and shut as they were, or an error")
texts = all(set(each["open"].dropna()) == {"True", "False"} and each["shut"].dtype == bool for each in back.values())
sys.exit(not ("fid" not in back["gpkg"] and "fid" in back["fgb"] and texts))
P
