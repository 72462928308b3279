#!/bin/bash
# Zeros that zarr-python writes are missing values for xarray in format 2 of Zarr, and zeros in format 3. The fill value of an array says what a chunk holds
# that was never written; zarr-python sets it to 0 unless told otherwise, and xarray takes that of format 2 for the CF attribute _FillValue as well: whole numbers
# become floats, each measured zero is NaN, a mean is another one. The same code with zarr_format=3 keeps them.
# zarr-python itself reads the zeros, xarray only with mask_and_scale=False.
# The guess: a value that was written is that value. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install zarr==3.1.6 xarray==2026.9.0
v/bin/python -W ignore - <<'P'
import sys
import xarray, zarr
found = {}
for form in (2, 3):
    group = zarr.create_group(f"{form}.zarr", zarr_format=form)
    rain = group.create_array("rain", shape=(5,), dtype="int32", **({"dimension_names": ["day"]} if form == 3 else {}))
    if form == 2:
        rain.attrs["_ARRAY_DIMENSIONS"] = ["day"]
    rain[:] = [0, 0, 4, 0, 2]
    read = xarray.open_zarr(f"{form}.zarr", consolidated=False)["rain"]
    plain = xarray.open_zarr(f"{form}.zarr", consolidated=False, mask_and_scale=False)["rain"]
    found[form] = ([str(each) for each in read.values.tolist()], round(float(read.mean()), 3), plain.values.tolist(), zarr.open_group(f"{form}.zarr")["rain"][:].tolist())
    print(f"format {form}, fill value {rain.fill_value!r}: xarray {found[form][0]}, mean {found[form][1]}; without masks {found[form][2]}; zarr {found[form][3]}")
print(f"zarr {zarr.__version__}, xarray {xarray.__version__}; guess: 0 0 4 0 2, mean 1.2, in both")
rain = [0, 0, 4, 0, 2]
sys.exit(found != {2: (["nan", "nan", "4.0", "nan", "2.0"], 3.0, rain, rain), 3: (["0", "0", "4", "0", "2"], 1.2, rain, rain)})
P
