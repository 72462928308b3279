#!/bin/bash
# Every date of a Stata file that pandas 3 reads and pyreadstat writes, as SPSS, as Stata again or as SAS transport, is 1970-01-01 afterwards. pandas.read_stata gives dates
# of days and months in whole seconds (datetime64[s]), and pyreadstat takes no notice of that unit; times of Stata, which pandas gives in milliseconds, come through,
# and so do microseconds and nanoseconds. Neither says a word. Dates in seconds also come from numpy and from astype("datetime64[s]").
# The guess: the dates, or an error for a unit that is not known. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pandas==3.1.1 pyreadstat==1.3.7
v/bin/python - <<'P'
import sys
import pandas, pyreadstat
dates = pandas.to_datetime(["1999-12-31", "2021-01-05"])
pandas.DataFrame({"day": dates, "time": dates}).to_stata("a.dta", convert_dates={"day": "td", "time": "tc"}, write_index=False)
frame = pandas.read_stata("a.dta")
print("pandas.read_stata:", {name: (str(kind), [str(each.date()) for each in frame[name]]) for name, kind in frame.dtypes.items()})
found = {}
for kind, write, read in (("sav", pyreadstat.write_sav, pyreadstat.read_sav), ("dta", pyreadstat.write_dta, pyreadstat.read_dta), ("xpt", pyreadstat.write_xport, pyreadstat.read_xport)):
    write(frame, f"b.{kind}")
    back, _ = read(f"b.{kind}")
    found[kind] = {name: [str(each)[:10] for each in back[name]] for name in back}
    print(f"pyreadstat {pyreadstat.__version__}, {kind}:", found[kind])
print("guess: 1999-12-31 and 2021-01-05 in both columns")
sys.exit(any(told != {"day": ["1970-01-01"] * 2, "time": ["1999-12-31", "2021-01-05"]} for told in found.values()))
P
