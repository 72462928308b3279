#!/bin/bash
# Rows that geopandas writes to FlatGeobuf come back in another order: along a curve through space. The first two of a file are not the first two
# that were written, and what belongs together by position (a second table, an offset, a hash of rows in order) no longer does.
# The guess: a file of rows keeps their order, as GeoPackage, GeoJSON and shapefile do. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install geopandas==1.2.0 pyogrio==0.13.0 shapely==2.2.0 pandas==3.1.1
v/bin/python -W ignore - <<'P'
import sys
import geopandas, pyogrio
points = geopandas.points_from_xy([9, 1, 5, -100, 100, 0], [1, 1, 5, 40, -40, 0])
frame = geopandas.GeoDataFrame({"id": list("abcdef")}, geometry=points, crs=4326)
found = {}
for kind, more in (("fgb", {}), ("gpkg", {}), ("geojson", {}), ("shp", {}), ("plain.fgb", {"SPATIAL_INDEX": "NO"})):
    frame.to_file(f"x.{kind}", **more)
    found[kind] = "".join(geopandas.read_file(f"x.{kind}")["id"])
    print(f"{kind:10} {found[kind]}", more or "")
first = "".join(geopandas.read_file("x.fgb", rows=2)["id"])
print("the first two of the FlatGeobuf file:", first, "| GDAL", ".".join(map(str, pyogrio.__gdal_version__)))
print("guess: abcdef everywhere")
rest = {found[kind] for kind in found if kind != "fgb"}
sys.exit(not (rest == {"abcdef"} and found["fgb"] != "abcdef" and sorted(found["fgb"]) == list("abcdef") and first != "ab"))
P
