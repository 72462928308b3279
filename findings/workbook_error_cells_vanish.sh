#!/bin/bash
# Cells with an error (#N/A, #DIV/0!) of a workbook vanish without a word in the quick readers, and polars drops the row.
# The guess: an error is told, is the text "#N/A", or at least keeps its row. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install openpyxl==3.1.5 fastexcel==0.21.0 python-calamine==0.9.1 polars==2.1.0 pyarrow==26.0.1
v/bin/python - <<'P'
import openpyxl, fastexcel, python_calamine, polars, sys
book = openpyxl.Workbook()
for row in (["n"], [1], ["#N/A"], ["#DIV/0!"], [4]):
    book.active.append(row)
book.save("e.xlsx")
own = [cell.value for cell in openpyxl.load_workbook("e.xlsx").active["A"]]
fast = fastexcel.read_excel("e.xlsx").load_sheet(0).to_arrow().to_pydict()["n"]
cells = python_calamine.CalamineWorkbook.from_path("e.xlsx").get_sheet_by_index(0).to_python()
frame = polars.read_excel("e.xlsx")["n"].to_list()
print("openpyxl 3.1.5       ", own, "(as in the file)")
print("fastexcel 0.21.0     ", fast)
print("python-calamine 0.9.1", cells)
print("polars 2.1.0         ", frame, "(two rows are gone)")
print("guess: the error is told, is the text \"#N/A\", or at least keeps its row")
sys.exit(not (fast == [1.0, None, None, 4.0] and cells[2] == [""] and frame == [1, 4]))
P
