#!/bin/bash
# The two libraries by which Python reads the units of scientific data, cf-units (UDUNITS, the units of the CF conventions) and pint (that of pint-xarray and MetPy), both know
# these names, and mean other things by them: nmi is a nanomile or a nautical mile, gal the acceleration of gravimeters or a gallon, a an are or a year,
# oz a volume or a mass, mil a length or an angle, ct 10 kg or a carat, R a röntgen or the gas constant, Eh 10^18 hours or a hartree. One kind, two sizes: cal (4.1868 or
# 4.184 J), month and year (of 365.2422 or 365.25 days). So what one library wrote into `units`, the other converts without an error.
# The guess: a name that both know is one unit. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install cf-units==3.3.1 pint==0.25.3
v/bin/python - <<'P'
import sys
import cf_units, pint
KINDS = {"m": "m", "m/s": "m.s-1", "m/s**2": "m.s-2", "m**2": "m2", "m**3": "m3", "kg": "kg", "s": "s", "rad": "rad", "J": "J"}
registry = pint.UnitRegistry()
def of_pint(name):
    unit = registry(name)
    kind = next((kind for kind in KINDS if unit.is_compatible_with(kind)), None)
    return (unit.to(kind).magnitude, kind) if kind else (1.0, str(unit.units))
def of_udunits(name):
    unit = cf_units.Unit(name)
    kind = next((kind for kind, text in KINDS.items() if unit.is_convertible(text)), None)
    return (unit.convert(1.0, KINDS[kind]), kind) if kind else (1.0, unit.definition)
differ = []
for name in ("nmi", "gal", "a", "oz", "mil", "ct", "R", "Eh", "cal", "month", "year", "kt", "t", "ha"):
    first, second = of_udunits(name), of_pint(name)
    same = first[1] == second[1] and abs(first[0] / second[0] - 1) < 1e-6
    differ += [] if same else [name]
    print(f"{name:6} UDUNITS {first[0]:.8g} {first[1]}, pint {second[0]:.8g} {second[1]}")
print("cf-units", cf_units.__version__, "pint", pint.__version__, "differ in", differ)
print("guess: they differ in none")
sys.exit(differ != ["nmi", "gal", "a", "oz", "mil", "ct", "R", "Eh", "cal", "month", "year"])
P
