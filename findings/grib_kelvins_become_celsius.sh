#!/bin/bash
# A GRIB file of the weather services says 300 K, eccodes and cfgrib read 300, and GDAL (rasterio, and so what is built on it) 26.85. GDAL changes temperatures to degrees Celsius unless
# the setting GRIB_NORMALIZE_UNITS is NO; the sign is the item GRIB_UNIT=[C] of the band's metadata, while the field for units, `units`, stays empty. Other
# kinds of numbers stay as they are. So one file has two values, and no value of it is above a threshold of 273.15.
# The guess: a reader of files gives the values of the file. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install rasterio==1.4.4 eccodes==2.50.0 eccodeslib==2.50.0.33
v/bin/python - <<'P'
import eccodes
for name, value in (("2t", 300.0), ("sp", 100_000.0)):
    message = eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib2")
    eccodes.codes_set(message, "shortName", name)
    eccodes.codes_set_array(message, "values", [value - at % 10 for at in range(eccodes.codes_get_size(message, "values"))])
    with open(f"{name}.grib2", "wb") as file:
        eccodes.codes_write(message, file)
    print(f"eccodes {eccodes.codes_get_api_version()}: {name} {eccodes.codes_get_array(message, 'values')[0]:g} {eccodes.codes_get(message, 'units')}")
P
v/bin/python -W ignore - <<'P'
import sys
import rasterio
found = {}
for name in ("2t", "sp"):
    for options in ({}, {"GRIB_NORMALIZE_UNITS": "NO"}):
        with rasterio.Env(**options), rasterio.open(f"{name}.grib2") as file:
            found[name, bool(options)] = (round(float(file.read(1)[0, 0]), 2), file.units[0], file.tags(1)["GRIB_UNIT"])
            print(f"rasterio {rasterio.__version__} (GDAL {rasterio.__gdal_version__}): {name} {found[name, bool(options)]} {options}")
print("guess: 300 and 100000, and [K] and [Pa]")
sys.exit(found != {("2t", False): (26.85, None, "[C]"), ("2t", True): (300.0, None, "[K]"), ("sp", False): (100000.0, None, "[Pa]"), ("sp", True): (100000.0, None, "[Pa]")})
P
