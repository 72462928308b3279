#!/bin/bash
# Packed NetCDF files (16 bits and a scale for each file, as weather archives serve months) that xarray joins and writes become other numbers without a word:
# the joined variable keeps the packing of the first file, and what does not fit its 16 bits wraps. In memory all is right.
# 100 and 200 become -31.072 and 3.392; counts of 300 and -5 written as uint8 become 44 and 251.
# The guess: an error or a warning, the largest value, or a packing that fits. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install xarray==2026.9.0 netCDF4==1.7.5.1.post1 pandas==3.1.1
v/bin/python - <<'P'
import sys, warnings
import pandas, xarray
said = []
def saved(name, values, start, scale):
    data = xarray.Dataset({"v": ("t", values)}, coords={"t": pandas.date_range(start, periods=len(values))})
    data.to_netcdf(name, encoding={"v": {"dtype": "int16", "scale_factor": scale, "_FillValue": -32768}})
    return xarray.load_dataset(name)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    joined = xarray.concat([saved("dry.nc", [1.0, 2.0], "2020-01-01", 0.001), saved("wet.nc", [100.0, 200.0], "2020-01-03", 0.1)], "t")
    joined.to_netcdf("joined.nc")
    back = [round(value, 6) for value in xarray.load_dataset("joined.nc").v.values.tolist()]
    xarray.Dataset({"v": ("t", [1, 300, -5])}).to_netcdf("counts.nc", encoding={"v": {"dtype": "uint8"}})
    counts = xarray.load_dataset("counts.nc").v.values.tolist()
heard = [str(each.message)[:90] for each in said if issubclass(each.category, (RuntimeWarning, UserWarning))]
print("xarray 2026.9.0, joined, in memory:", [round(value, 6) for value in joined.v.values.tolist()])
print("written and read again:            ", back)
print("1, 300, -5 as uint8:               ", counts)
print("warnings:                          ", heard)
print("guess: an error, a warning, or the values")
sys.exit(not (back == [1.0, 2.0, -31.072, 3.392] and counts == [1, 44, 251] and not heard))
P
