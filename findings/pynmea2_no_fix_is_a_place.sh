#!/bin/bash
# A GPS receiver without a fix sends sentences with empty fields for its place, as NMEA 0183 wants. pynmea2 gives latitude 0.0 and longitude 0.0 for them, a place in
# the Gulf of Guinea, while the empty altitude of the same sentence is None. So a track that starts indoors starts there,
# and a mean position is wrong; only is_valid or the raw text .lat tells.
# The guess: None, as for the altitude. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pynmea2==1.19.0
v/bin/python - <<'P'
import sys
import pynmea2
found = []
for text in ("$GPGGA,123519,,,,,0,00,,,M,,M,,", "$GPRMC,123519,V,,,,,,,230320,,,N", "$GPGLL,,,,,123519,V,N"):
    told = pynmea2.parse(text)
    found.append((told.latitude, told.longitude, told.is_valid))
    print(f"{text:34} latitude {told.latitude!r}, longitude {told.longitude!r}, raw lat {told.lat!r}, is_valid {told.is_valid}")
first = pynmea2.parse("$GPGGA,123519,,,,,0,00,,,M,,M,,")
print("altitude of the first:", first.altitude)
print("guess: None, None")
sys.exit(not (found == [(0.0, 0.0, False)] * 3 and first.altitude is None))
P
