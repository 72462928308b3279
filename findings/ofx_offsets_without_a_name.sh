#!/bin/bash
# Times of bank statements in OFX may have an offset from GMT, with the name of its zone or without: 20240101233000[-8:PST] and 20240101233000[-8] are one moment. ofxparse
# moves the first to GMT, 07:30 on January 2, and leaves the second at 23:30 on January 1, without a word and without a zone in either. So payments of one
# minute are eight hours and a day apart, depending on how their bank writes. ofxtools gives one moment.
# The guess: the offset counts, the name of a zone is for people. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install ofxparse==0.21 ofxtools==1.1.1
v/bin/python -W ignore - <<'P'
import io, sys
from importlib.metadata import version
from ofxparse import OfxParser
from ofxtools.Types import DateTime
TEXT = """OFXHEADER:100
DATA:OFXSGML
VERSION:102
SECURITY:NONE
ENCODING:USASCII
CHARSET:1252
COMPRESSION:NONE
OLDFILEUID:NONE
NEWFILEUID:NONE

<OFX><SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>20240131<LANGUAGE>ENG</SONRS></SIGNONMSGSRSV1>
<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS><STMTRS><CURDEF>USD<BANKACCTFROM><BANKID>1<ACCTID>2<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>20240101<DTEND>20240131<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>{}<TRNAMT>-1.00<FITID>1<NAME>A</STMTTRN></BANKTRANLIST>
<LEDGERBAL><BALAMT>1.00<DTASOF>20240131</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>"""
found = {}
for time in ("20240101233000[-8:PST]", "20240101233000[-8]", "20240101233000[+1:CET]", "20240101233000[+1]"):
    read = OfxParser.parse(io.BytesIO(TEXT.format(time).encode()))
    found[time] = (str(read.account.statement.transactions[0].date), str(DateTime().convert(time)))
    print(f"{time}: ofxparse {found[time][0]}, ofxtools {found[time][1]}")
print(f"ofxparse {version('ofxparse')}, ofxtools {version('ofxtools')}; guess: the same with and without the name")
of_ofxparse, of_ofxtools = map(list, zip(*found.values()))
sys.exit(not (of_ofxparse == ["2024-01-02 07:30:00", "2024-01-01 23:30:00", "2024-01-01 22:30:00", "2024-01-01 23:30:00"]
              and of_ofxtools == ["2024-01-02 07:30:00+00:00"] * 2 + ["2024-01-01 22:30:00+00:00"] * 2))
P
