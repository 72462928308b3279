#!/bin/bash
# One negative decimal with a fraction as the value of a partition column ends a table of deltalake (delta-rs). -1.50 goes into the log as "-1.-50"; the writer raises an error, but after
# its commit, so the table stays broken: it is read no more, its other partitions included, and takes no more rows.
# Bytes as such a value are written and read without an error, as other bytes: FF 00 comes back as the twelve letters \u00FF\u0000. As plain columns both are right.
# The guess: the values come back; what is refused is refused before the commit. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install deltalake==1.6.6 pyarrow==26.0.1
v/bin/python - <<'P'
import os, sys
from decimal import Decimal
import deltalake, pyarrow as pa
def amounts(*texts):
    return pa.table({"a": pa.array(map(Decimal, texts), pa.decimal128(9, 2)), "b": range(len(texts))})
def told(what):
    try:
        return what()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
def read(name):
    return told(lambda: deltalake.DeltaTable(name).to_pyarrow_table()["a"].to_pylist())
found = {}
for name, parts in (("plain", None), ("parts", ["a"])):
    steps = found[name] = []
    for text in ("1.50", "-1.50", "7.25"):
        steps.append(told(lambda: deltalake.write_deltalake(name, amounts(text), mode="append", partition_by=parts)))
    steps += [len(os.listdir(f"{name}/_delta_log")), read(name)]
    print(name, *steps, sep="\n  ")
    deltalake.write_deltalake(f"{name} b", pa.table({"a": [b"\xff\x00"], "b": [1]}), partition_by=parts)
    found[f"{name} b"] = read(f"{name} b")
    print(f"  bytes: {found[f'{name} b']}")
print("guess: parts as plain, or one refusal and a table of two rows")
broken = "DeltaError: Kernel error: Failed to parse value '-1.-50' as 'decimal(9,2)'"
wanted = {
    "plain": [None, None, None, 3, [Decimal("7.25"), Decimal("-1.50"), Decimal("1.50")]],
    "plain b": [b"\xff\x00"],
    "parts": [None, broken, broken, 2, broken],
    "parts b": [rb"\u00FF\u0000"],
}
found["plain"][-1] = sorted(found["plain"][-1], reverse=True)
wanted["plain"][-1] = sorted(wanted["plain"][-1], reverse=True)
sys.exit(found != wanted)
P
