#!/bin/bash
# A bank that takes a credit back books RC, "reversal of credit", in field 61 of a SWIFT MT940 statement: money leaves the account. The Python package mt-940 makes an
# amount negative for D only, so a reversed credit of 100 is +100, and the statement is 200 off its own closing balance, which nobody compares. RD, "reversal
# of debit", is right by the same rule. The package mt940js of npm gives -100.
# The guess: the amounts of a statement add up from its opening to its closing balance. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install mt-940==5.1.1
npm init -y >/dev/null; npm install --silent --no-audit --no-fund mt940js@1.3.5 >/dev/null
cat > a.sta <<'T'
:20:START
:25:12345678/0000000001
:28C:1/1
:60F:C240101EUR1000,00
:61:2401020102C100,00NTRFNONREF
:86:paid by mistake
:61:2401030103RC100,00NTRFNONREF
:86:and taken back
:61:2401040104D50,00NTRFNONREF
:86:spent twice
:61:2401050105RD50,00NTRFNONREF
:86:and given back
:62F:C240105EUR1000,00
-
T
cat > read.mjs <<'J'
import { readFileSync } from 'node:fs'
import mt940js from 'mt940js'
const [statement] = new mt940js.Parser().parse(readFileSync('a.sta', 'utf8'))
console.log(statement.transactions.map((each) => each.amount).join(' '))
J
node read.mjs > js
v/bin/python - <<'P'
import sys
import mt940
read = mt940.parse("a.sta")
amounts = [int(each.data["amount"].amount) for each in read]
opening, closing = (int(read.data[f"final_{name}_balance"].amount.amount) for name in ("opening", "closing"))
by_js = list(map(int, open("js").read().split()))
print(f"mt-940 {mt940.__version__}: {opening} with {amounts} is {opening + sum(amounts)}, the bank says {closing}")
print("mt940js 1.3.5:", by_js)
print("guess: [100, -100, -50, 50]")
sys.exit(not (amounts == [100, 100, -50, 50] and by_js == [100, -100, -50, 50] and closing == opening == 1000))
P
