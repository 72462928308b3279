"""Random files of further writers, which other environments may have, too.

    python tests/support/more_writers.py FOLDER COUNT

writes files with the libraries of any interpreter that has pandas and pyarrow (pandas 3,
fastparquet, XlsxWriter, PySpark if `SPARK` is set); beside each is a pickle of a `RandomFile`.
`ODF_TEST_PREVIEW_FOLDER` names the folder for `tests/properties/test_preview_is_dataset.py`.
"""

from __future__ import annotations

import csv
import io
import os
import pickle
import random
import string
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import random_files as basic
from random_files import RandomFile, drawn

Chance = random.Random


def _naive(chance: Chance) -> Callable[[], Any]:
    return lambda: datetime(2020, 1, 1) + timedelta(seconds=chance.randrange(10**8))


def _times(chance: Chance) -> Callable[[], Any]:
    return lambda: time(chance.randrange(24), chance.randrange(60), chance.randrange(60))


def _words(chance: Chance) -> Callable[[], Any]:
    return lambda: chance.choice(["low", "high", "", "NA", "1"])


def _lists(chance: Chance) -> Callable[[], Any]:
    return lambda: [chance.randrange(9) for _ in range(chance.randrange(3))]


def _objects(chance: Chance) -> Callable[[], Any]:
    return lambda: {"x": chance.randrange(9), "y": chance.choice(["a", None])}


def _many_objects(chance: Chance) -> Callable[[], Any]:
    return lambda: [{"x": chance.randrange(9)} for _ in range(chance.randrange(3))]


def _nothing(_: Chance) -> Callable[[], Any]:
    return lambda: None


def _prices(chance: Chance) -> Callable[[], Any]:
    return lambda: round(chance.random() * 10**6, 2)


def _percents(chance: Chance) -> Callable[[], Any]:
    return lambda: f"{chance.randrange(1000) / 10} %"


def _old_days(chance: Chance) -> Callable[[], Any]:
    return lambda: date(1900, 1, 1) + timedelta(days=chance.randrange(-5_000, 60_000))


FLAT = [basic._ints, basic._floats, basic._texts, basic._dates, basic._bools, _naive, _words]
PLAIN = [*FLAT, _prices, _percents, _old_days, basic._codes, basic._big, basic._micros]
NESTED = [*PLAIN, _lists, _objects, _many_objects, _nothing, _times, basic._decimals]


def _csv_of_frame(chance: Chance) -> RandomFile:
    """The habits of people who write CSV with pandas."""
    columns = drawn(chance, [*FLAT, _prices, _percents, basic._codes])
    sep = chance.choice([",", ";", "\t", "|"])
    how: dict[str, Any] = {
        "index": False,
        "sep": sep,
        "quoting": chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC, csv.QUOTE_ALL]),
        "date_format": chance.choice([None, "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%SZ"]),
        "lineterminator": chance.choice(["\n", "\r\n"]),
        "decimal": "," if sep != "," and chance.random() < 0.4 else ".",
        "na_rep": chance.choice(["", "", "NA", "-", "\\N"]),
    }
    if how["quoting"] == csv.QUOTE_MINIMAL and chance.random() < 0.2:
        how["quotechar"] = "'"
    text = pd.DataFrame(columns).to_csv(**how)
    encoding = chance.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"])
    return RandomFile("frame.csv", text.encode(encoding), columns, f"pandas {pd.__version__}")


def _copied(table: pa.Table, suffix: str, options: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.register("t", table)
        path = Path(folder) / f"rows.{suffix}"
        connection.execute(f"COPY t TO '{path}' ({options})")
        return path.read_bytes()


def _table(columns: dict[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _csv_of_duckdb(chance: Chance) -> RandomFile:
    columns = drawn(chance, [*PLAIN, basic._decimals, _times])
    options = chance.choice(["", ", DELIMITER ';'", ", FORCE_QUOTE *", ", NULLSTR 'NULL'"])
    data = _copied(_table(columns), "csv", f"FORMAT csv, HEADER{options}")
    return RandomFile("duckdb.csv", data, columns, f"duckdb {duckdb.__version__}")


def _json_of_duckdb(chance: Chance) -> RandomFile:
    columns = drawn(chance, [*NESTED])
    is_array = chance.random() < 0.5
    data = _copied(_table(columns), "json", f"FORMAT json, ARRAY {str(is_array).lower()}")
    name = "duckdb.json" if is_array else "duckdb.ndjson"
    return RandomFile(name, data, columns, f"duckdb {duckdb.__version__}")


def _json_of_pandas(chance: Chance) -> RandomFile:
    columns = drawn(chance, [*FLAT, _prices, basic._codes, _lists, _objects])
    lines = chance.random() < 0.5
    frame = pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    )
    text = frame.to_json(orient="records", lines=lines, date_format="iso", double_precision=15)
    name = "pandas.ndjson" if lines else "pandas.json"
    return RandomFile(name, text.encode(), columns, f"pandas {pd.__version__}")


def _workbook(chance: Chance) -> RandomFile:
    columns = drawn(chance, [*FLAT, _prices, basic._codes])
    engines = [one for one in ("openpyxl", "xlsxwriter") if find_spec(one)]
    out, engine = io.BytesIO(), chance.choice(engines)
    frame = pd.DataFrame(
        {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    )
    frame.to_excel(out, index=False, engine=engine)
    return RandomFile("book.xlsx", out.getvalue(), columns, engine)


def _parquet_of_frame(chance: Chance) -> RandomFile:
    """Frames with an index, with categories and with types of their own for nulls."""
    columns = drawn(chance, [*PLAIN, _lists])
    frame = pd.DataFrame(columns)
    if chance.random() < 0.3:
        frame = frame.convert_dtypes()
    for name in frame.columns:
        if chance.random() < 0.2 and all(isinstance(one, str) for one in columns[name]):
            frame[name] = frame[name].astype("category")
    given = dict(columns)
    if chance.random() < 0.4:
        start, step = chance.randrange(9), chance.randrange(1, 5)
        count = len(frame)
        frame.index = pd.RangeIndex(start, start + step * count, step, name="row")
        given["row"] = list(frame.index)
    out = io.BytesIO()
    frame.to_parquet(out, engine="pyarrow")
    return RandomFile("frame.parquet", out.getvalue(), given, f"pandas {pd.__version__}")


def _parquet_of_fastparquet(chance: Chance) -> RandomFile:
    import fastparquet

    columns = drawn(chance, [*FLAT, _prices, basic._codes, basic._big])
    frame = pd.DataFrame(columns)
    for name in frame.select_dtypes("datetime"):  # it takes other units for nanoseconds
        frame[name] = frame[name].astype("datetime64[ns]")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        times = chance.choice(["int64", "int96"])
        fastparquet.write(str(path), frame, times=times, write_index=False)
        data = path.read_bytes()
    return RandomFile("fast.parquet", data, columns, f"fastparquet {fastparquet.__version__}")


def _parquet_of_arrow(chance: Chance) -> RandomFile:
    columns = drawn(chance, NESTED)
    table = _table(columns)
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and chance.random() < 0.4:
            kind = chance.choice([pa.large_string(), pa.string_view()])
            made = table.column(at).cast(kind)
            if chance.random() < 0.3:
                made = table.column(at).combine_chunks().dictionary_encode()
            table = table.set_column(at, field.name, made)
        if pa.types.is_timestamp(field.type) and chance.random() < 0.5:
            kind = chance.choice([pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin")])
            table = table.set_column(at, field.name, table.column(at).cast(kind))
    out = io.BytesIO()
    pq.write_table(
        table, out, store_schema=chance.random() < 0.8,
        use_dictionary=chance.random() < 0.5,
        use_deprecated_int96_timestamps=chance.random() < 0.2,
        compression=chance.choice(["snappy", "zstd", "none"]),
        version=chance.choice(["1.0", "2.4", "2.6"]),
    )  # fmt: skip
    return RandomFile("arrow.parquet", out.getvalue(), columns, f"pyarrow {pa.__version__}")


def _parquet_of_polars(chance: Chance) -> RandomFile:
    columns = drawn(chance, NESTED)
    out = io.BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(out)
    return RandomFile("polars.parquet", out.getvalue(), columns, f"polars {pl.__version__}")


def _parquet_of_duckdb(chance: Chance) -> RandomFile:
    columns = drawn(chance, NESTED)
    data = _copied(_table(columns), "parquet", "FORMAT parquet")
    return RandomFile("duckdb.parquet", data, columns, f"duckdb {duckdb.__version__}")


WRITERS = [
    *(_csv_of_frame, _csv_of_duckdb, _json_of_duckdb, _json_of_pandas, _parquet_of_frame),
    *(_parquet_of_arrow, _parquet_of_polars, _parquet_of_duckdb),
    *([_parquet_of_fastparquet] if find_spec("fastparquet") else []),
    *([_workbook] if find_spec("openpyxl") else []),
]


def file_of(seed: int) -> RandomFile | None:
    """The file of a seed; None if its writer refuses the rows."""
    chance = random.Random(f"more {seed}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = chance.choice(WRITERS)(chance)
    except Exception:
        return None
    stem, _, suffix = made.name.rpartition(".")
    name = f"{stem}-{chance.choice(string.ascii_lowercase)}.{suffix}"
    return RandomFile(name, made.data, made.columns, made.writer)


def _of_spark(count: int) -> Iterator[RandomFile]:
    """Files of Spark with settings of its earlier versions."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    kinds = [*FLAT, basic._big, basic._codes, basic._decimals, _old_days, _lists]
    for seed in range(count):
        chance = random.Random(f"spark {seed}")
        columns = drawn(chance, kinds)
        legacy = chance.choice(["LEGACY", "CORRECTED"])
        for key, value in {
            "outputTimestampType": chance.choice(["INT96", "TIMESTAMP_MICROS"]),
            "int96RebaseModeInWrite": legacy, "datetimeRebaseModeInWrite": legacy,
            "writeLegacyFormat": str(chance.random() < 0.5).lower(),
        }.items():  # fmt: skip
            spark.conf.set(f"spark.sql.parquet.{key}", value)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        form = chance.choice(["parquet", "parquet", "csv", "json"])
        with tempfile.TemporaryDirectory() as folder:
            try:
                frame = spark.createDataFrame(
                    list(zip(*columns.values(), strict=True)), list(columns)
                )
                keeps = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
                options = {"header": "true", **keeps} if form == "csv" else {}
                frame.coalesce(1).write.mode("overwrite").options(**options).format(form).save(
                    folder
                )
            except Exception:
                continue
            (path,) = Path(folder).glob(f"part-*.{form}")
            name = f"spark.{'ndjson' if form == 'json' else form}"
            yield RandomFile(name, path.read_bytes(), columns, f"spark {spark.version} {legacy}")


def written(folder: Path) -> Iterator[RandomFile]:
    """The files that were written to a folder."""
    for path in sorted(folder.glob("*.pickle")):
        yield pickle.loads(path.read_bytes())


def main(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = _of_spark(count) if os.environ.get("SPARK") else map(file_of, range(count))
    for number, file in enumerate(made):
        if file is not None:
            name = file.writer.replace(" ", "-")
            (folder / f"{name}-{number:05}.pickle").write_bytes(pickle.dumps(file))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
