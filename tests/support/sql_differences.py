"""The same words of SQL on the engine of derivatives and on that of queries, as a page.

    python tests/support/sql_differences.py

computes the expressions of `tests/vectors/sql/expressions.txt` on Spark and on DataFusion, by the
same code as preprocessing, and writes `docs/sql-differences.md`.
"""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseSuccess,
    SqlQueryStep,
    TransformSql,
)

ROOT = Path(__file__).parents[2]
EXPRESSIONS = ROOT / "tests" / "vectors" / "sql" / "expressions.txt"
PAGE = ROOT / "docs" / "sql-differences.md"
AGGREGATES = "Aggregates"
TOGETHER = 24
"""Expressions of one query; if one of them is refused, the query is halved."""
REFUSED = "refused"
NOON = datetime.datetime(2024, 3, 5, 6, 7, 8, 900_000)
ROW = pa.table(
    {
        "n": pa.array([7], pa.int32()),
        "m": pa.array([2], pa.int32()),
        "big": pa.array([2**62], pa.int64()),
        "x": pa.array([2.5]),
        "nan": pa.array([math.nan]),
        "zero": pa.array([-0.0]),
        "d": pa.array([Decimal("12.34")], pa.decimal128(10, 2)),
        "s": pa.array(["Hello World"]),
        "yes": pa.array([True]),
        "t": pa.array([NOON], pa.timestamp("us", "UTC")),
        "day": pa.array([NOON.date()]),
        "sunday": pa.array([datetime.date(2024, 3, 10)]),
        "xs": pa.array([[3, 1, None, 2]], pa.list_(pa.int32())),
        "place": pa.array([{"city": "Bern"}], pa.struct([("city", pa.string())])),
    }
)
ROWS = pa.table(
    {
        "k": pa.array(["a", "b", "B", None]),
        "i": pa.array([1, 2, 4, 4], pa.int32()),
        "v": pa.array([1.5, None, 2.5, 4.0]),
        "y": pa.array([1.0, math.nan, -0.0, None]),
        "d": pa.array([Decimal(v) for v in ("1.10", "2.20", "3.35", "0.00")], pa.decimal128(10, 2)),
    }
)
HEAD = """\
# The same words of SQL, on both engines

Derivatives and preprocessing usually run on Spark, queries of readers on DataFusion. The same text
may mean something else there, without an error. This page shows {count} expressions on both: their
values in a row that has

{columns}

and, for aggregates, in four rows of `k`, `i`, `v`, `y` and `d`. {same} of them are the same.

Before a query becomes a derivative, look for its functions in the first table, or have the
derivative name `engine: datafusion`. The check of a definition for Spark warns of some of them.

`make sql-differences` writes this page, and a test compares it with what the engines compute.
"""


@dataclass(frozen=True)
class Both:
    """What an expression is on both engines."""

    topic: str
    expression: str
    spark: str
    datafusion: str
    is_same: bool

    def row(self) -> str:
        """Its row of a table."""
        return f"{beginning(self.expression)} {_cell(self.spark)} | {_cell(self.datafusion)} |"


def beginning(expression: str) -> str:
    """The first cell of its row."""
    return f"| {_cell(expression)} |"


def expressions() -> list[tuple[str, str]]:
    """Topic and expression of each line."""
    topic, found = "", []
    for line in EXPRESSIONS.read_text().splitlines():
        if line.startswith("# "):
            topic = line.removeprefix("# ")
        elif line:
            found.append((topic, line))
    return found


def computed(
    spark: Any, datafusion: Any, folder: Path, given: Sequence[tuple[str, str]]
) -> list[Both]:
    """What the two engines make of expressions, aggregates last; files are in the folder."""
    made = [_on(engine, given, folder) for engine in (spark, datafusion)]
    return [
        Both(topic, text, _shown(one), _shown(other), _plain(one) == _plain(other))
        for (topic, text), one, other in zip(given, *made, strict=True)
    ]


def page(found: Sequence[Both]) -> str:
    """The page, in Markdown."""
    refused = [each for each in found if REFUSED in (each.spark, each.datafusion)]
    differ = [each for each in found if not each.is_same and each not in refused]
    same = [each for each in found if each.is_same and each not in refused]
    columns = "; ".join(f"`{n}` = {_shown(ROW[n][0].as_py())}" for n in ROW.column_names)
    parts = [HEAD.format(count=len(found), same=len(same), columns=columns)]
    for title, rows in (
        ("Another value, without an error", differ),
        ("Refused by one of them, or by both", refused),
        ("The same value", same),
    ):
        parts.append(f"## {title}\n")
        for topic in dict.fromkeys(each.topic for each in rows):
            parts += [f"### {topic}\n", "| | derivatives (Spark) | queries (DataFusion) |"]
            parts += ["|---|---|---|", *(each.row() for each in rows if each.topic == topic), ""]
    return "\n".join(parts)


def _on(engine: Any, given: Sequence[tuple[str, str]], folder: Path) -> list[Any]:
    found: list[Any] = []
    for table, kind in ((ROW, False), (ROWS, True)):
        path = folder / f"rows-{kind}.parquet"
        pq.write_table(table, path)
        texts = [text for topic, text in given if (topic == AGGREGATES) is kind]
        for at in range(0, len(texts), TOGETHER):
            found += _values(engine, texts[at : at + TOGETHER], path)
    return found


def _values(engine: Any, texts: Sequence[str], path: Path) -> list[Any]:
    listed = ", ".join(f"{text} as c{at}" for at, text in enumerate(texts))
    out = path.with_name("out.parquet")
    request = RawQueryRequest(
        input_data_paths=(str(path),),
        transform=TransformSql(
            queries=(SqlQueryStep(query=f"select {listed} from input"),), engine=engine.name
        ),
        output_data_path=str(out),
    )
    try:
        response = engine.execute_raw_query(request)
        if isinstance(response, RawQueryResponseSuccess):
            table = pq.read_table(out)
            if table.num_rows == 1 and table.num_columns == len(texts):
                return [column[0].as_py() for column in table.columns]
    except Exception as bad:  # types that a Parquet file cannot hold
        response = bad
    if len(texts) == 1:
        return [response]
    half = len(texts) // 2
    return _values(engine, texts[:half], path) + _values(engine, texts[half:], path)


def _plain(value: Any) -> Any:
    """The value in a form in which equal numbers are equal, whatever their types."""
    if isinstance(value, bool) or value is None:
        return ("is", value)
    if isinstance(value, int | float | Decimal):
        if isinstance(value, float) and not math.isfinite(value):
            return ("number", str(value))
        return ("number", Decimal(_shown(value)).normalize())
    if isinstance(value, list | tuple):
        return ("list", tuple(map(_plain, value)))
    if isinstance(value, dict):
        return ("struct", tuple((name, _plain(each)) for name, each in value.items()))
    return _shown(value)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e15:
            return f"{value:.1f}"
        case float():
            return f"{value:.12g}"
        case int() | Decimal():
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case str():
            return "'" + value.replace("\n", "\\n").replace("\t", "\\t") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(sep=" ")
        case datetime.date() | datetime.timedelta() | datetime.time():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{n}: {_shown(v)}" for n, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_shown, value)) + "]"
    return REFUSED


def _cell(text: str) -> str:
    if text == REFUSED:
        return text
    marks = "``" if "`" in text else "`"
    room = " " if "`" in text else ""
    return f"{marks}{room}{text}{room}{marks}".replace("|", "\\|")


def main() -> None:
    from odf_workers.engines.datafusion.engine import DataFusionEngine
    from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded
    from odf_workers.engines.spark_engine.engine import SparkEngine

    with tempfile.TemporaryDirectory() as folder:
        spark = SparkWhenNeeded(SparkOptions(scratch=Path(folder), folders=(Path(folder),)))
        found = computed(
            SparkEngine(spark.start()), DataFusionEngine(), Path(folder), expressions()
        )
        PAGE.write_text(page(found))
        spark.stop()


if __name__ == "__main__":
    main()
