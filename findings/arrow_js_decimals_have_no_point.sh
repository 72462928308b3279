#!/bin/bash
# The JavaScript library of Apache Arrow, which browsers and notebooks read Arrow answers by, gives decimals without their point: 19.99 of a
# decimal(10,2) is 1999 as text, as a number and in JSON, and -0.01 is -1. Only the type of the column has the scale. 19.99 + 1 is the text "19991".
# So prices are a hundred times too high as soon as a page or a service in JavaScript shows them, and the same file of another scale changes them again.
# The guess: the text "19.99", or a number near it. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyarrow==26.0.1
npm init -y >/dev/null; npm install --silent --no-audit --no-fund apache-arrow@21.2.0 >/dev/null
v/bin/python - <<'P'
from decimal import Decimal
import pyarrow as pa
prices = pa.table({"price": pa.array([Decimal("19.99"), Decimal("-0.01")], pa.decimal128(10, 2))})
with pa.OSFile("prices.arrow", "wb") as file, pa.ipc.new_file(file, prices.schema) as out:
    out.write_table(prices)
P
cat > read.mjs <<'J'
import { readFileSync } from 'node:fs'
import { tableFromIPC } from 'apache-arrow'
const column = tableFromIPC(readFileSync('prices.arrow')).getChild('price')
const found = [...column].map((price) => [String(price), Number(price), JSON.stringify(price), price + 1])
for (const each of found) console.log('text %s, number %d, JSON %s, + 1 is %s', ...each)
console.log('scale of the type:', column.type.scale)
console.log('guess: 19.99 and -0.01')
const told = JSON.stringify([found[0], found[1].slice(0, 2), column.type.scale])
process.exit(told === JSON.stringify([['1999', 1999, '"\\"1999\\""', '19991'], ['-1', -1], 2]) ? 0 : 1)
J
node read.mjs
