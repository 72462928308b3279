#!/bin/bash
# Stata's weekly dates (%tw) have 52 weeks in every year: week 1 begins on January 1, and week 52 takes the eight or nine days that are left, says its manual. pandas
# writes December 31, and in leap years December 30 as well, into a week 53, which the format does not have: its number is that of the first week of the next year. So read
# back, by pandas or by Stata, the last day of 2021 is 2022-01-01, and sums by year move. Monthly and quarterly dates are right.
# The guess: the last days of a year are its week 52. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pandas==3.1.1
v/bin/python - <<'P'
import sys
import pandas
days = ["2021-01-01", "2021-01-07", "2021-01-08", "2021-12-30", "2021-12-31", "2020-12-29", "2020-12-30", "2020-12-31"]
found = {}
for kind, of_year in (("tw", 52), ("tm", 12), ("tq", 4)):
    pandas.DataFrame({"t": pandas.to_datetime(days)}).to_stata("a.dta", convert_dates={"t": kind}, write_index=False)
    numbers = pandas.read_stata("a.dta", convert_dates=False)["t"].astype(int)
    back = pandas.read_stata("a.dta")["t"]
    found[kind] = [f"{1960 + number // of_year}{kind[1]}{number % of_year + 1}" for number in numbers]
    print(f"%{kind}:", *(f"{day} is {name}, back {time.date()};" for day, name, time in zip(days, found[kind], back)))
    moved = [day for day, time in zip(days, back) if time.year != int(day[:4])]
    found[f"moved {kind}"] = moved
print("pandas", pandas.__version__, "moves to another year:", found["moved tw"])
print("guess: 2021w52 for 2021-12-31, 2020w52 for 2020-12-30 and 2020-12-31")
sys.exit(not (found["tw"] == ["2021w1", "2021w1", "2021w2", "2021w52", "2022w1", "2020w52", "2021w1", "2021w1"] and found["moved tm"] == found["moved tq"] == []))
P
