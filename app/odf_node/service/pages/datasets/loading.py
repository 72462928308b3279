"""Code examples that load a dataset with common tools; each runs as printed.

They follow docs/reading.md, for one dataset, and all of them give current rows.
`tests/app/test_page_loading.py` runs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from keyword import iskeyword

from ...sharing.names import table_name

_NO_WORD = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class LoadingWay:
    """One tool, and the lines to run with it."""

    tool: str
    lines: str
    note: str = ""


HASHED = "Your machine hashes what it reads."
COPY = "The second line checks every hash of the copy."
_ROWS = "SELECT * FROM read_parquet('{url}/read?format=parquet') LIMIT 10;"
_TAKEN = """odf-node pull odf+{url} {folder}/
odf-node verify {folder}/
odf-node read {folder}/ --limit 10"""
_SCRIPT = """import {{ open }} from "odf-node";

for await (const row of open("{url}"{token}).rows()) console.log(row);"""
SHARED = LoadingWay(
    "Delta Sharing",
    """curl -s -H "Authorization: Bearer $ODF_NODE_TOKEN" {base}delta-sharing/profile > config.share
python -c "import delta_sharing as d; print(d.load_as_pandas('config.share#{table}'))\"""",
    "The profile holds your token, also where everybody may read.",
)
_CATALOGUE = """from pyiceberg.catalog import load_catalog

catalog = load_catalog("odf", type="rest", uri="{base}iceberg"{token})
{name} = catalog.load_table("{listed}").scan().to_pandas()"""
_ATTACHED = """ATTACH '' AS odf (TYPE iceberg, ENDPOINT '{base}iceberg', AUTHORIZATION_TYPE 'none');
SELECT * FROM odf.{quoted} LIMIT 10;"""
OPEN = (
    LoadingWay(
        "pandas",
        """import pandas as pd

{name} = pd.read_parquet("{url}/read?format=parquet")""",
    ),
    LoadingWay(
        "Polars",
        """import urllib.request

import polars as pl

answer = urllib.request.urlopen("{url}/read?format=parquet")
{name} = pl.read_parquet(answer.read())""",
    ),
    LoadingWay("DuckDB", _ROWS),
    LoadingWay(
        "Spark",
        """import odf_node

spark.dataSource.register(odf_node.SparkSource)
{name} = spark.read.format("odf").load("{url}")""",
        HASHED,
    ),
    LoadingWay("R", """{name} <- read.csv("{url}/read?format=csv")"""),
    LoadingWay(
        "R with arrow",
        """file <- tempfile(fileext = ".parquet")
download.file("{url}/read?format=parquet", file, mode = "wb", quiet = TRUE)
{name} <- arrow::read_parquet(file)""",
    ),
    LoadingWay(
        "curl",
        """curl -s '{url}/read?format=csv&limit=10'
curl -s '{url}/read?format=parquet' > {folder}.parquet""",
    ),
    LoadingWay(
        "odf-node in Python",
        """import odf_node

{name} = odf_node.open("{url}", verify=True).pandas()""",
        HASHED,
    ),
    LoadingWay("TypeScript", _SCRIPT.replace("{token}", "")),
    LoadingWay("odf-node, a copy", _TAKEN, COPY),
    LoadingWay("Iceberg: pyiceberg", _CATALOGUE.replace("{token}", "")),
    LoadingWay("Iceberg: DuckDB", _ATTACHED),
    SHARED,
)
"""Examples for a dataset that everybody may read."""
CLOSED = (
    LoadingWay(
        "pandas",
        """import os

import pandas as pd

{name} = pd.read_parquet(
    "{url}/read?format=parquet",
    storage_options={{"Authorization": "Bearer " + os.environ["ODF_NODE_TOKEN"]}},
)""",
    ),
    LoadingWay(
        "Polars",
        """import os
import urllib.request

import polars as pl

asked = urllib.request.Request("{url}/read?format=parquet")
asked.add_header("Authorization", "Bearer " + os.environ["ODF_NODE_TOKEN"])
{name} = pl.read_parquet(urllib.request.urlopen(asked).read())""",
    ),
    LoadingWay(
        "DuckDB",
        "CREATE SECRET (TYPE http, BEARER_TOKEN '…', SCOPE '{url}/read');\n" + _ROWS,
        "Your token goes where the dots are.",
    ),
    LoadingWay(
        "Spark",
        """import os

import odf_node

spark.dataSource.register(odf_node.SparkSource)
reader = spark.read.format("odf").option("token", os.environ["ODF_NODE_TOKEN"])
{name} = reader.load("{url}")""",
        HASHED,
    ),
    LoadingWay(
        "R",
        """asked <- url(
  "{url}/read?format=csv",
  headers = c(Authorization = paste("Bearer", Sys.getenv("ODF_NODE_TOKEN")))
)
{name} <- read.csv(asked)""",
    ),
    LoadingWay(
        "R with arrow",
        """file <- tempfile(fileext = ".parquet")
token <- paste("Bearer", Sys.getenv("ODF_NODE_TOKEN"))
download.file(
  "{url}/read?format=parquet", file,
  mode = "wb", quiet = TRUE, headers = c(Authorization = token)
)
{name} <- arrow::read_parquet(file)""",
    ),
    LoadingWay(
        "curl",
        """curl -s -H "Authorization: Bearer $ODF_NODE_TOKEN" \\
  '{url}/read?format=csv&limit=10'""",
    ),
    LoadingWay(
        "odf-node in Python",
        """import os

import odf_node

token = os.environ["ODF_NODE_TOKEN"]
{name} = odf_node.open("{url}", token=token, verify=True).pandas()""",
        HASHED,
    ),
    LoadingWay(
        "TypeScript",
        _SCRIPT.replace("{token}", ", {{ token: process.env.ODF_NODE_TOKEN }}"),
    ),
    LoadingWay("odf-node, a copy", _TAKEN, COPY),
    LoadingWay(
        "Iceberg: pyiceberg",
        "import os\n\n" + _CATALOGUE.replace("{token}", """, token=os.environ["ODF_NODE_TOKEN"]"""),
    ),
    LoadingWay(
        "Iceberg: DuckDB",
        "CREATE SECRET odf (TYPE iceberg, TOKEN '…');\n"
        + _ATTACHED.replace("AUTHORIZATION_TYPE 'none'", "SECRET odf"),
        "Your token goes where the dots are.",
    ),
    SHARED,
)
"""Examples for a dataset that requires a token; the token is in `ODF_NODE_TOKEN`."""


def ways(base: str, alias: str, *, is_open: bool) -> list[LoadingWay]:
    """Return the examples for a dataset of the node at `base`; with a token unless `is_open`."""
    folder = alias.rpartition("/")[2]
    account, _, name = table_name(alias).split(".")
    texts = {
        "base": base,
        "url": f"{base}{alias}",
        "folder": folder,
        "name": _variable(folder),
        "table": table_name(alias),
        "listed": f"{account}.{name}",
        "quoted": f'"{account}"."{name}"',
    }
    made = OPEN if is_open else CLOSED
    return [LoadingWay(way.tool, way.lines.format(**texts), way.note) for way in made]


def _variable(name: str) -> str:
    """Return the name of a dataset as a valid variable name in Python and R."""
    text = _NO_WORD.sub("_", name).strip("_").lower()
    return text if text.isidentifier() and not iskeyword(text) else f"rows_{text}"
