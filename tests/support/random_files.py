"""Random files of rows as several writers write them, with what each row says."""

from __future__ import annotations

import csv
import io
import json
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq


@dataclass(frozen=True)
class RandomFile:
    """A file, and its rows as its writer was given them: columns by name, in the order of rows."""

    name: str
    data: bytes
    columns: dict[str, list[Any]]
    writer: str


TEXTS = [
    "Oslo",
    "a,b",
    'say "hi"',
    "C:\\temp\\new",
    "line\nbreak",
    "æøå",
    " blank ",
    "",
    "NA",
    "x;y",
]
WORDS = [
    *TEXTS,
    "\u2028",
    "null",
    "-",
    "0",
    "true",
    "007",
    "1e5",
    "2025-01-01",
    "=1+1",
    "tab\there",
]


def _ints(chance: random.Random) -> Callable[[], Any]:
    return lambda: chance.randrange(-5, 1000)


def _big(chance: random.Random) -> Callable[[], Any]:
    return lambda: chance.randrange(2**60, 2**63)


def _codes(chance: random.Random) -> Callable[[], Any]:
    return lambda: f"{chance.randrange(10**5):05}"


def _floats(chance: random.Random) -> Callable[[], Any]:
    return lambda: chance.choice([chance.random(), chance.random() * 1e20, 0.1, -2.5, 1e-7])


def _decimals(chance: random.Random) -> Callable[[], Any]:
    return lambda: Decimal(chance.randrange(10**19)) / 100


def _texts(chance: random.Random) -> Callable[[], Any]:
    return lambda: chance.choice(WORDS)


def _dates(chance: random.Random) -> Callable[[], Any]:
    return lambda: date(2020, 1, 1) + timedelta(days=chance.randrange(1500))


def _millis(chance: random.Random) -> Callable[[], Any]:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    return lambda: start + timedelta(milliseconds=chance.randrange(10**11))


def _micros(chance: random.Random) -> Callable[[], Any]:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    return lambda: start + timedelta(microseconds=chance.randrange(10**14))


def _bools(chance: random.Random) -> Callable[[], Any]:
    return lambda: chance.random() < 0.5


KINDS = [_ints, _big, _codes, _floats, _decimals, _texts, _dates, _millis, _micros, _bools]
NESTED = [
    lambda chance: lambda: {"x": chance.random(), "y": chance.choice(["a", None])},
    lambda chance: lambda: [chance.randrange(9) for _ in range(chance.randrange(3))],
    lambda chance: lambda: chance.choice([1, "one", {"n": 1}, None]),
    lambda chance: lambda: chance.choice([{}, {"a": 1}]),
    lambda chance: lambda: chance.randrange(2**70),
]
NAMES = [
    "id",
    "name",
    "op",
    "time",
    "valid_to",
    "2020",
    "Æ",
    "a b",
    "x.y",
    "offset",
    "value",
    "key",
]


def columns_of(chance: random.Random, *, nested: bool = False) -> dict[str, list[Any]]:
    """Random columns; some have missing values."""
    return drawn(chance, KINDS + (NESTED if nested else []))


def drawn(chance: random.Random, kinds: list[Any]) -> dict[str, list[Any]]:
    """Random columns of some kinds."""
    count = chance.randrange(1, 12)
    found = {}
    for name in chance.sample(NAMES, chance.randrange(1, 6)):
        make = chance.choice(kinds)(chance)
        gaps = chance.choice([0, 0, 0.2])
        found[name] = [None if chance.random() < gaps else make() for _ in range(count)]
    return found


def text_of(value: Any) -> str:
    """A value as programs write it in text."""
    match value:
        case None:
            return ""
        case bool():
            return chance_free(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case float():
            return repr(value)
    return str(value)


def chance_free(value: bool) -> str:
    return "true" if value else "false"


def csv_by_hand(chance: random.Random) -> RandomFile:
    """A CSV file with one of the habits that files have: titles, footers, a repeated header, blank
    names, another separator, marks of the byte order, another encoding."""
    columns = columns_of(chance)
    out = io.StringIO(newline="")
    separator = chance.choice([",", ";", "\t", "|"])
    writer = csv.writer(
        out, delimiter=separator, lineterminator=chance.choice(["\n", "\r\n"]),
        quoting=chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    )  # fmt: skip
    if chance.random() < 0.2:
        out.write("Report of a station\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(map(text_of, row))
        if chance.random() < 0.03:
            writer.writerow(columns)
    if chance.random() < 0.1:
        out.write("\nSource: somebody\n")
    data = out.getvalue().encode(chance.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    return RandomFile("by-hand.csv", data, columns, "csv module")


def csv_of_pandas(chance: random.Random) -> RandomFile:
    columns = columns_of(chance)
    index = chance.random() < 0.5
    words = {} if chance.random() < 0.5 else {"na_rep": "NA"}
    data = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()}).to_csv(
        index=index, **words
    )
    given = {"": list(range(len(next(iter(columns.values()))))), **columns} if index else columns
    return RandomFile("pandas.csv", data.encode(), given, "pandas.to_csv")


def _typed(chance: random.Random, kinds: list[Any]) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in drawn(chance, kinds).items()})


def _plain(table: pa.Table) -> dict[str, list[Any]]:
    return {name: table.column(name).to_pylist() for name in table.column_names}


def csv_of_arrow(chance: random.Random) -> RandomFile:
    table = _typed(chance, [_ints, _big, _floats, _texts, _dates, _bools])
    out = io.BytesIO()
    arrow_csv.write_csv(table, out)
    return RandomFile("arrow.csv", out.getvalue(), _plain(table), "pyarrow.csv")


def csv_of_polars(chance: random.Random) -> RandomFile:
    table = _typed(chance, [_ints, _floats, _texts, _dates, _millis, _micros, _bools])
    data = pl.from_arrow(table).write_csv(separator=chance.choice([",", ";"]))
    return RandomFile("polars.csv", data.encode(), _plain(table), "polars.write_csv")


def json_by_hand(chance: random.Random) -> RandomFile:
    columns = columns_of(chance, nested=True)
    names = list(columns)
    plain = {
        name: [
            str(v) if isinstance(v, Decimal) and at % 2 else
            float(v) if isinstance(v, Decimal) else
            text_of(v) if isinstance(v, date) else v
            for v in values
        ]
        for at, (name, values) in enumerate(columns.items())
    }  # fmt: skip
    rows = [dict(zip(names, row, strict=True)) for row in zip(*plain.values(), strict=True)]
    if chance.random() < 0.3:
        rows = [{k: v for k, v in row.items() if v is not None} or row for row in rows]
    form = chance.choice(["json", "ndjson", "path"])
    if form == "ndjson":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return RandomFile("rows.ndjson", text.encode(), plain, "json.dumps")
    document: Any = rows if form == "json" else {"meta": {"n": 1}, "results": rows}
    return RandomFile("rows.json", json.dumps(document).encode(), plain, "json.dumps")


def ndjson_of_polars(chance: random.Random) -> RandomFile:
    table = _typed(chance, [_ints, _floats, _texts, _bools])
    data = pl.from_arrow(table).write_ndjson()
    return RandomFile("polars.ndjson", data.encode(), _plain(table), "polars.write_ndjson")


PARQUET = [_ints, _big, _codes, _floats, _decimals, _texts, _dates, _millis, _micros, _bools]


def parquet_of_arrow(chance: random.Random) -> RandomFile:
    table = _typed(chance, PARQUET)
    out = io.BytesIO()
    pq.write_table(
        table, out, row_group_size=chance.choice([2, 100]),
        use_deprecated_int96_timestamps=chance.random() < 0.2,
        data_page_version=chance.choice(["1.0", "2.0"]),
    )  # fmt: skip
    return RandomFile("arrow.parquet", out.getvalue(), _plain(table), "pyarrow.parquet")


def parquet_of_polars(chance: random.Random) -> RandomFile:
    table = _typed(chance, PARQUET)
    out = io.BytesIO()
    pl.from_arrow(table).write_parquet(out)
    return RandomFile("polars.parquet", out.getvalue(), _plain(table), "polars")


def parquet_of_pandas(chance: random.Random) -> RandomFile:
    table = _typed(chance, [_ints, _floats, _texts, _micros, _bools])
    out = io.BytesIO()
    frame = table.to_pandas()
    frame.to_parquet(out, index=False)
    written = pa.Table.from_pandas(frame, preserve_index=False)
    return RandomFile("pandas.parquet", out.getvalue(), _plain(written), "pandas")


def parquet_of_duckdb(chance: random.Random) -> RandomFile:
    import tempfile
    from pathlib import Path

    table = _typed(chance, PARQUET)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.register("t", table)
        path = Path(folder) / "rows.parquet"
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
        return RandomFile("duckdb.parquet", path.read_bytes(), _plain(table), "duckdb")


WRITERS = [
    *(csv_by_hand, csv_by_hand, csv_by_hand, csv_of_pandas, csv_of_arrow, csv_of_polars),
    *(json_by_hand, json_by_hand, ndjson_of_polars),
    *(parquet_of_arrow, parquet_of_polars, parquet_of_pandas, parquet_of_duckdb),
]


def random_file(seed: int) -> RandomFile:
    """The file of a seed."""
    chance = random.Random(seed)
    made = chance.choice(WRITERS)(chance)
    stem, _, suffix = made.name.rpartition(".")
    return RandomFile(f"{stem}-{chance.choice(string.ascii_lowercase)}.{suffix}", *(
        made.data, made.columns, made.writer))  # fmt: skip
