#!/bin/bash
# laspy, the Python library for point clouds of laser scans (LAS), rounds coordinates to hundredths unless told otherwise, as the format holds whole numbers and a scale: that is a
# centimetre for metres, and a kilometre for degrees. Longitude 13.404954 is 13.40 as soon as it is set, 52.520007 is 52.52, and points of one street have one place. Nothing
# is said; las.x shows it. Only numbers too large for the scale are an error. The scale has to be set before the first coordinate.
# The guess: the library chooses a scale that fits the numbers, or says what it rounds. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install laspy==2.7.0
v/bin/python -W error - <<'P'
import sys
import laspy, numpy
degrees = numpy.array([13.404954, 13.404123, 13.402001]), numpy.array([52.520007, 52.519444, 52.518002])
found = {}
for name, scale in (("default", None), ("1e-7", 1e-7)):
    header = laspy.LasHeader(point_format=6, version="1.4")
    if scale:
        header.scales = [scale] * 3
    points = laspy.LasData(header)
    points.x, points.y = degrees
    points.write("a.las")
    back = laspy.read("a.las")
    found[name] = [(round(float(x), 7), round(float(y), 7)) for x, y in zip(back.x, back.y)]
    print(f"laspy {laspy.__version__}, scale {back.header.scales[0]:g}: {found[name]}")
print("guess:", [tuple(map(float, each)) for each in zip(*degrees)])
sys.exit(found != {"default": [(13.4, 52.52)] * 3, "1e-7": [tuple(map(float, each)) for each in zip(*degrees)]})
P
