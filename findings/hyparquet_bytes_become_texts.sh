#!/bin/bash
# hyparquet, by which pages and Node read Parquet files (also behind the Iceberg reader icebird), takes each column of bytes for text in UTF-8, though the file says nothing of text: what
# is no UTF-8 is replaced by U+FFFD, so hashes, keys and WKB geometries are lost, and FF and FE are one value. Bytes of a fixed width stay bytes.
# utf8: false gives the bytes and leaves annotated texts as they are. Decimals are JavaScript numbers, so 12345678901234567.89 is 12345678901234568, while whole numbers of 64 bits are BigInt.
# The guess: bytes without an annotation are a Uint8Array, as the format says. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyarrow==26.0.1
npm init -y >/dev/null; npm install --silent --no-audit --no-fund hyparquet@1.33.0 >/dev/null
v/bin/python - <<'P'
from decimal import Decimal
import pyarrow as pa, pyarrow.parquet
pyarrow.parquet.write_table(pa.table({
    "bytes": [b"\xff", b"\xfe"], "fixed": pa.array([b"\xff", b"\xfe"], pa.binary(1)), "text": ["é", "f"], "whole": [2**53 + 1, 1],
    "amount": pa.array([Decimal("12345678901234567.89"), Decimal("0.01")], pa.decimal128(20, 2)),
}), "a.parquet")
P
cat > read.mjs <<'J'
import { readFileSync } from 'node:fs'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
const file = await asyncBufferFromFile('a.parquet')
const told = (value) => value instanceof Uint8Array ? `bytes ${Buffer.from(value).toString('hex')}` : `${typeof value} ${value}`
const found = {}
for (const [name, options] of [['default', {}], ['utf8: false', { utf8: false }]]) {
  const rows = await parquetReadObjects({ file, ...options })
  found[name] = Object.fromEntries(Object.keys(rows[0]).map((column) => [column, rows.map((row) => told(row[column]))]))
  console.log(name, found[name])
}
console.log('hyparquet', JSON.parse(readFileSync('node_modules/hyparquet/package.json')).version, 'guess: bytes ff and fe, 12345678901234567.89')
const { default: plain, 'utf8: false': exact } = found
const right = plain.bytes.join() === 'string \ufffd,string \ufffd' && plain.fixed.join() === 'bytes ff,bytes fe' && exact.bytes.join() === 'bytes ff,bytes fe'
  && exact.text.join() === 'string é,string f' && plain.amount[0] === 'number 12345678901234568' && plain.whole[0] === 'bigint 9007199254740993'
process.exit(right ? 0 : 1)
J
node read.mjs
