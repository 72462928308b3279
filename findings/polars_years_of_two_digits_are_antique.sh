#!/bin/bash
# pl.read_csv(try_parse_dates=True) and str.to_date() of Polars take dates with years of two digits and put them in the first century: 01/02/20 is 1 February of the
# year 20. Where a year of two digits stands first, as in 20-01-05, it is taken for the day: 20 January of the year 5; but 99-12-31 is a day of the year 99.
# The first row decides for the column: 20-01-05 is a day of the year 5, and behind a first row of 99-12-31 one of the year 20; the other way round the file is refused.
# With a time behind the date all are refused.
# The guess: text, or an error, or 2020 as strptime's %y says. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install polars==2.1.0
v/bin/python - <<'P'
import io, sys
import polars
def read(*texts):
    try:
        return [str(each) for each in polars.read_csv(io.StringIO("d\n" + "\n".join(texts) + "\n"), try_parse_dates=True)["d"].to_list()]
    except Exception as error:
        return type(error).__name__
found = {}
for texts in (("01/02/20", "13/02/20"), ("20-01-05", "20-01-06"), ("99-12-31", "20-01-05"), ("20-01-05 10:00:00",)):
    found[texts[0]] = read(*texts)
    print(f"{texts}: {found[texts[0]]}")
one = str(polars.Series(["20-01-05"]).str.to_date()[0])
print("str.to_date of 20-01-05:", one)
print("guess: text, an error, or 2020 and 1999")
sys.exit(not (found["01/02/20"] == ["0020-02-01", "0020-02-13"] and found["20-01-05"] == ["0005-01-20", "0006-01-20"]
              and found["99-12-31"] == ["0099-12-31", "0020-01-05"] and one == "0005-01-20"))
P
