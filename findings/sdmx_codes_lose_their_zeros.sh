#!/bin/bash
# pysdmx, the Python library of official statistics for SDMX, guesses types when it reads SDMX-CSV and then makes texts of what it guessed. A dimension whose codes
# are all digits loses its zeros: the areas 001 (World by UN M49), 004 and 040 are 1, 4 and 40, codes that the list does not have, and 01 and 1, two codes of one
# list, become one. One more row with a code of letters, and all zeros are there again. Values become floats: 1.10 is 1.1, and 12345678901234567.25 loses its end. SDMX-ML
# with the same observations gives codes and values as they are. SDMX says that codes are texts, in CSV as in XML.
# The guess: codes are read as texts, as pysdmx shows them to be. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install 'pysdmx[data,xml]==1.21.0' pandas==3.1.1
v/bin/python -W ignore - <<'P'
import sys
from pysdmx.io import read_sdmx
ROWS = [("001", "01", "1.10"), ("004", "1", "2.5"), ("040", "10", "12345678901234567.25")]
def of_csv(rows):
    text = "STRUCTURE,STRUCTURE_ID,ACTION,REF_AREA,AGE,TIME_PERIOD,OBS_VALUE\n"
    text += "".join(f"dataflow,EX:DF(1.0),I,{area},{age},2020,{value}\n" for area, age, value in rows)
    return columns(read_sdmx(text, validate=False))
def of_xml(rows):
    base, urn = "http://www.sdmx.org/resources/sdmxml/schemas/v2_1", "urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure=EX:DS(1.0):ObsLevelDim:TIME_PERIOD"
    series = "".join(f'<Series REF_AREA="{area}" AGE="{age}"><Obs TIME_PERIOD="2020" OBS_VALUE="{value}"/></Series>' for area, age, value in rows)
    return columns(read_sdmx(f"""<?xml version="1.0"?><m:StructureSpecificData xmlns:m="{base}/message" xmlns:s="{base}/data/structurespecific" xmlns:n="{urn}"
      xmlns:c="{base}/common" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><m:Header><m:ID>a</m:ID><m:Test>true</m:Test><m:Prepared>2024-01-01T00:00:00</m:Prepared>
      <m:Sender id="EX"/><m:Structure structureID="S" namespace="{urn}" dimensionAtObservation="TIME_PERIOD"><c:Structure><Ref agencyID="EX" id="DS" version="1.0"
      class="DataStructure"/></c:Structure></m:Structure></m:Header><m:DataSet s:structureRef="S" xsi:type="n:DataSetType" s:dataScope="DataStructure"
      action="Replace">{series}</m:DataSet></m:StructureSpecificData>""", validate=False))
def columns(message):
    frame = message.data[0].data
    return [[str(value) for value in frame[name]] for name in ("REF_AREA", "AGE", "OBS_VALUE")]
found = {"CSV": of_csv(ROWS), "XML": of_xml(ROWS), "CSV and an area of letters": of_csv([*ROWS, ("EU27", "Y1", "3")])}
for name, told in found.items():
    print(f"{name}: areas {told[0]}, ages {told[1]}, values {told[2]}")
print("guess:", [list(texts) for texts in zip(*ROWS)])
sys.exit(not (found["CSV"] == [["1", "4", "40"], ["1", "1", "10"], ["1.1", "2.5", "1.2345678901234568e+16"]] and found["XML"][:2] == [["001", "004", "040"], ["01", "1", "10"]]
              and found["CSV and an area of letters"][:2] == [["001", "004", "040", "EU27"], ["01", "1", "10", "Y1"]]))
P
