#!/bin/bash
# The SAS transport format (XPORT, version 5), in which data go to the authorities of medicines and statistics, has no count of rows; its data end with blanks up to a
# multiple of 80 bytes. So blanks at the end can be rows or none, and readers guess without a word. Of six rows of one short text, the last three of them empty, pyreadstat
# reads back three and pandas eight; of a single row pandas makes eight, seven of which were never written. A column of numbers, which are never blank, settles it.
# The guess: as many rows as were written, or a warning. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pandas==3.1.1 pyreadstat==1.3.7
v/bin/python -W error - <<'P'
import sys
import pandas, pyreadstat
cases = {"six": {"note": ["a", "", "b", "", "", ""]}, "one": {"note": ["a"]}, "six with numbers": {"note": ["a", "", "b", "", "", ""], "n": [1, 2, 3, 4, 5, 6]}}
found = {}
for name, columns in cases.items():
    pyreadstat.write_xport(pandas.DataFrame(columns), "a.xpt", file_format_version=5)
    own = pyreadstat.read_xport("a.xpt")[0]["note"].tolist()
    other = pandas.read_sas("a.xpt", format="xport", encoding="ISO-8859-1")["note"].tolist()
    found[name] = (len(own), len(other))
    print(f"{name}: written {columns['note']}, pyreadstat {own}, pandas {other}")
print(f"pyreadstat {pyreadstat.__version__}, pandas {pandas.__version__}; guess: 6, 1 and 6 rows by both")
sys.exit(found != {"six": (3, 8), "one": (1, 8), "six with numbers": (6, 6)})
P
