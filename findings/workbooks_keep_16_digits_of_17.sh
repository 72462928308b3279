#!/bin/bash
# A float column that is written to a workbook and read back is another one: a quarter of its values changed in the last bits.
# openpyxl and XlsxWriter, and so pandas and polars, write 16 digits; a double needs 17, and the format holds doubles.
# The guess: what a table library writes as a double and reads as a double is the same double. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install openpyxl==3.1.5 xlsxwriter==3.3.1 pandas==3.1.1 polars==2.1.0 fastexcel==0.21.0 pyarrow==26.0.1
v/bin/python -W ignore - <<'P'
import random, re, sys, zipfile
import openpyxl, pandas, polars, xlsxwriter
random.seed(1)
true = [0.1 + 0.2, 0.3] + [random.random() for _ in range(9_998)]
def read(name):
    return [row[0] for row in openpyxl.load_workbook(name).active.iter_rows(values_only=True)][-len(true):]
book = openpyxl.Workbook()
for value in true:
    book.active.append([value])
book.save("openpyxl.xlsx")
book = xlsxwriter.Workbook("xlsxwriter.xlsx")
book.add_worksheet().write_column(0, 0, true)
book.close()
frame = pandas.DataFrame({"x": true})
for engine in ("openpyxl", "xlsxwriter"):
    frame.to_excel(f"pandas-{engine}.xlsx", index=False, engine=engine)
polars.DataFrame({"x": true}).write_excel("polars.xlsx")
back = {name: read(f"{name}.xlsx") for name in ("openpyxl", "xlsxwriter", "pandas-openpyxl", "pandas-xlsxwriter", "polars")}
back["polars, read by polars"] = polars.read_excel("polars.xlsx")["x"].to_list()
changed = {name: sum(a != b for a, b in zip(true, found)) for name, found in back.items()}
for name, count in changed.items():
    print(f"{name:23} {count} of {len(true)} doubles changed; 0.1 + 0.2 and 0.3 are {back[name][:2]}")
text = zipfile.ZipFile("xlsxwriter.xlsx").read("xl/worksheets/sheet1.xml").decode()
print("in the file:", re.findall(r"<v>([^<]*)</v>", text)[:3], "for", true[:3])
print("guess: none changed")
sys.exit(not all(2_000 < count < 3_000 and back[name][0] == back[name][1] == 0.3 for name, count in changed.items()))
P
