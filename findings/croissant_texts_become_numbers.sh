#!/bin/bash
# mlcroissant, the library of the Croissant format by which machine learning reads published data, lets pandas guess the types of a CSV file and looks at the declared types
# afterwards. In a column that the document declares as sc:Text, the code 007 of a column of digits with a gap is the text "7.0", without a gap "7"; NA (Namibia), null
# and None are missing; a whole number of a column with a gap, declared as sc:Integer, is its neighbour beyond 2^53. The same rows in a Parquet file are right.
# Nothing is told, and mlcroissant.Dataset finds no fault in the document.
# The guess: a declared text is the text of the file. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install mlcroissant==1.1.1 pandas==3.1.1 pyarrow==26.0.1
cat > a.py <<'P'
import hashlib, json, sys
from importlib.metadata import version
from pathlib import Path
import pandas
import mlcroissant
ROWS = [("007", "NA", "01", 9007199254740993), ("", "DE", "02", None), ("012", "null", "03", 5)]
NAMES = {"gap": "sc:Text", "country": "sc:Text", "full": "sc:Text", "whole": "sc:Integer"}
def read(name, kind):
    digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    fields = [{"@type": "cr:Field", "@id": f"r/{column}", "name": column, "dataType": declared, "source": {"fileObject": {"@id": "f"}, "extract": {"column": column}}}
              for column, declared in NAMES.items()]
    document = {
        "@context": {"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/", "cr": "http://mlcommons.org/croissant/", "dct": "http://purl.org/dc/terms/",
                     "conformsTo": "dct:conformsTo", "recordSet": "cr:recordSet", "field": "cr:field", "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "source": "cr:source",
                     "fileObject": "cr:fileObject", "extract": "cr:extract", "column": "cr:column"},
        "@type": "sc:Dataset", "name": "a", "description": "a", "license": "a", "url": "https://example.org/", "datePublished": "2024-01-01",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "distribution": [{"@type": "cr:FileObject", "@id": "f", "name": "f", "contentUrl": name, "encodingFormat": kind, "sha256": digest}],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "r", "name": "r", "field": fields}],
    }
    Path("a.json").write_text(json.dumps(document))
    rows = list(mlcroissant.Dataset("a.json").records("r"))
    return {column: [None if row[f"r/{column}"] is None else row[f"r/{column}"].decode() if isinstance(row[f"r/{column}"], bytes) else int(row[f"r/{column}"]) for row in rows]
            for column in NAMES}
columns = dict(zip(NAMES, zip(*ROWS)))
frame = pandas.DataFrame({**columns, "whole": pandas.array(columns["whole"], "Int64")})
frame.to_csv("a.csv", index=False)
frame.to_parquet("a.parquet")
found = {"CSV": read("a.csv", "text/csv"), "Parquet": read("a.parquet", "application/x-parquet")}
print("mlcroissant", version("mlcroissant"), "a.csv:", Path("a.csv").read_text().split())
for name, columns in found.items():
    print(f"  {name}: {columns}")
print("guess: as in the file")
wrong = {"gap": ["7.0", None, "12.0"], "country": [None, "DE", None], "full": ["1", "2", "3"], "whole": [9007199254740992, None, 5]}
sys.exit(not (found["CSV"] == wrong and found["Parquet"] == {name: list(values) for name, values in zip(NAMES, zip(*ROWS))}))
P
v/bin/python -W ignore a.py 2>err || { tail -5 err; exit 1; }
