#!/bin/bash
# A yes or no in a FITS table can be unknown: the standard has T, F, and a zero byte for that (7.3.3.1). astropy never writes the zero byte: each masked value
# becomes T, whatever lies under the mask, without a word, and the column comes back whole, while masked numbers of the same table come back masked. What others
# wrote as unknown is False for astropy, which warns of it, and for fitsio, which does not. So unknown is Yes or No, by who wrote the file.
# The guess: masked, as for numbers. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install astropy==8.0.2 fitsio==1.4.2
v/bin/python -W error - <<'P'
import sys, warnings
from pathlib import Path
import astropy, fitsio
from astropy.table import MaskedColumn, Table
mask = [False, False, True, True]
Table({"ill": MaskedColumn([True, False, True, False], mask=mask), "n": MaskedColumn([1, 2, 3, 4], mask=mask)}).write("a.fits")
back = Table.read("a.fits")
found = {"written": back["ill"].tolist(), "numbers": back["n"].tolist()}
Table({"ill": [True, False, True, False]}).write("b.fits")
raw = Path("b.fits").read_bytes()
assert raw[-2880:-2876] == b"TFTF"
Path("b.fits").write_bytes(raw[:-2880] + b"TF\0\0" + raw[-2876:])
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found["zero bytes, astropy"] = Table.read("b.fits")["ill"].tolist()
found["zero bytes, fitsio"] = fitsio.read("b.fits")["ill"].tolist()
print("astropy", astropy.__version__, "fitsio", fitsio.__version__)
for name, values in found.items():
    print(f"  {name}: {values}")
print("  astropy warns when it reads:", str(told[0].message)[:84])
print("guess: True, False, None, None")
unknown = [True, False, False, False]
sys.exit(found != {"written": [True, False, True, True], "numbers": [1, 2, None, None], "zero bytes, astropy": unknown, "zero bytes, fitsio": unknown})
P
