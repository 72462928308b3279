#!/bin/bash
# A NetCDF file can say which values of a variable are valid (valid_range, valid_min, valid_max); by CF and the NetCDF Users Guide all others are missing. netCDF4 of Unidata masks
# them; xarray does not look at these attributes, with any engine, though it obeys _FillValue and missing_value of the same file. netCDF4 masks the default fill values of
# the library as well, such as -2147483647, also where no attribute names them. So a sensor's error code of -999 pulls
# one mean down and not the other: 20.5 by netCDF4, -319.33 by xarray.
# The guess: both follow the convention whose name they carry. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install xarray==2026.9.0 netCDF4==1.7.5.1.post1
cat > a.py <<'P'
import sys
import netCDF4
with netCDF4.Dataset("a.nc", "w") as file:
    file.Conventions = "CF-1.11"
    file.createDimension("x", 3)
    for name, values, attributes in (("range", [20.0, -999.0, 21.0], {"valid_range": [-50.0, 60.0]}), ("limits", [20.0, -999.0, 21.0], {"valid_min": -50.0, "valid_max": 60.0}),
                                     ("named", [20.0, -999.0, 21.0], {"missing_value": -999.0})):
        variable = file.createVariable(name, "f8", ("x",))
        variable.setncatts(attributes)
        variable.set_auto_mask(False)
        variable[:] = values
    file.createVariable("unnamed", "i4", ("x",))[:] = [1, -(2**31) + 1, 3]
P
cat > b.py <<'P'
import sys
import netCDF4, xarray
with netCDF4.Dataset("a.nc") as file:
    masked = {name: file[name][:].tolist() for name in file.variables}
with xarray.open_dataset("a.nc", engine="netcdf4") as data:
    plain = {name: [None if each != each else each for each in data[name].values.tolist()] for name in data}
    mean = round(float(data["range"].mean()), 2)
for name in masked:
    print(f"{name}: netCDF4 {masked[name]}, xarray {plain[name]}")
print(f"netCDF4 {netCDF4.__version__}, xarray {xarray.__version__}, its mean of range: {mean}")
print("guess: None in the middle of the first three, a number in that of the last")
gap, code = [20.0, None, 21.0], [20.0, -999.0, 21.0]
sys.exit(not (masked == {"range": gap, "limits": gap, "named": gap, "unnamed": [1, None, 3]} and mean == -319.33
              and plain == {"range": code, "limits": code, "named": gap, "unnamed": [1, -(2**31) + 1, 3]}))
P
v/bin/python a.py; v/bin/python b.py
