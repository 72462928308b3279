"""Values that no reader could take are refused with row and column, in every format and by every
way; the good rows beside them are not lost."""

from __future__ import annotations

import dataclasses
import io
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bad_values import BAD_COLUMNS, DAYS, GOOD_ENDS, TEXTS, counts
from msgspec.structs import replace
from refusals import refusing
from tests.workers.datasets import created, ndjson, upload
from tests.workers.derivatives import derivative, node_of, read
from tests.workers.transform.test_transform_run import run
from throwaway import throwaway_stores

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddPushSource, SqlQueryStep, TransformSql
from odf_protocol.metadata.sources import (
    MergeStrategyAppend,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.slices.schema import BadRow

NOW = Instant.parse("2050-01-01T12:00:00Z")


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


def parquet(column: pa.Array, **columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(column)), "v": column, **columns}), sink)
    return sink.getvalue()


def post(stores: Stores, bench: Any, dataset: Dataset, body: bytes, **asked: Any) -> IngestReceipt:
    payload = replace(upload(stores, dataset, body), **asked)
    return run_ingest(dataset, payload, bench, now=NOW)


# --- formats ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [what for what in BAD_COLUMNS if "ns" not in what])
def test_a_parquet_file_with_a_bad_value_is_refused(stores: Stores, bench: Any, what: str) -> None:
    column, reason = BAD_COLUMNS[what]
    dataset = created(stores, read=ReadStepParquet())
    head = dataset.head()
    with pytest.raises(BadRow, match=f"column `v.*`: row 2: .*{reason}") as refused:
        post(stores, bench, dataset, parquet(column))
    assert str(refused.value.facts["column"]).startswith("v")
    assert dataset.head() == head


@pytest.mark.parametrize("what", GOOD_ENDS)
def test_a_parquet_file_with_good_values_is_taken(stores: Stores, bench: Any, what: str) -> None:
    dataset = created(stores, read=ReadStepParquet())
    assert post(stores, bench, dataset, parquet(GOOD_ENDS[what])).rows_added > 0


@pytest.mark.parametrize("what", ["text", "text in a list", "a day far off", "74 hours"])
def test_bad_rows_are_set_aside_and_the_good_ones_are_taken(
    stores: Stores, bench: Any, what: str
) -> None:
    dataset = created(stores, read=ReadStepParquet())
    body = parquet(BAD_COLUMNS[what][0])
    receipt = post(stores, bench, dataset, body, on_bad_rows="quarantine")
    assert (receipt.rows_added, receipt.rows_rejected) == (2, 1)
    assert [row["id"] for row in read(stores, dataset)] == [0, 2]


WORDS = {
    "Date": ["29349-01-26", "0000-01-01", "infinity", "-infinity"],
    "Timestamp": ["29349-01-26T00:00:00Z", "0000-12-31T23:59:59Z", "infinity"],
    "Time": ["74:00:00", "24:00:00", "-01:00:00"],
    "Decimal": ["99999.99"],
}
TYPES = {
    "Date": {"kind": "Date"},
    "Timestamp": {"kind": "Timestamp", "unit": "Millisecond", "timezone": "UTC"},
    "Time": {"kind": "Time", "unit": "Millisecond"},
    "Decimal": {"kind": "Decimal", "precision": 4, "scale": 2},
}


def _declared(kind: str) -> dict[str, Any]:
    from odf_protocol.codec.manifests import from_data
    from odf_protocol.metadata.schema import DataSchema

    fields = [{"name": "v", "type": TYPES[kind]}]
    return {"schema": from_data({"fields": fields}, DataSchema)}


FEATURE = (
    '{{"type": "Feature", "geometry": {{"type": "Point", "coordinates": [1, 2]}}, '
    '"properties": {{"v": "{}"}}}}'
)
FORMATS: dict[str, tuple[type[ReadStep], str]] = {
    "csv": (ReadStepCsv, "v\n{}\n"),
    "ndjson": (ReadStepNdJson, '{{"v": "{}"}}\n'),
    "json": (ReadStepJson, '[{{"v": "{}"}}]'),
    "geojson": (
        ReadStepGeoJson,
        '{{"type": "FeatureCollection", "features": [' + FEATURE + "]}}",
    ),
    "ndgeojson": (ReadStepNdGeoJson, FEATURE + "\n"),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("kind", "word"), [(k, w) for k, words in WORDS.items() for w in words])
def test_a_text_with_such_a_value_is_refused(
    stores: Stores, bench: Any, form: str, kind: str, word: str
) -> None:
    step, text = FORMATS[form]
    header = {"header": True} if form == "csv" else {}
    dataset = created(stores, read=step(**_declared(kind), **header))
    with pytest.raises(BadInput, match="`v`"):
        post(stores, bench, dataset, text.format(word).encode())
    assert dataset.state().last_offset is None


@pytest.mark.parametrize("form", FORMATS)
def test_bytes_that_are_no_text_are_refused(stores: Stores, bench: Any, form: str) -> None:
    step, text = FORMATS[form]
    header = {"header": True} if form == "csv" else {}
    dataset = created(stores, read=step(ddl_schema=("v STRING",), **header))
    body = text.format("X").encode().replace(b"X", b"\xff\xfe")
    with pytest.raises(BadInput):
        post(stores, bench, dataset, body)
    assert dataset.state().last_offset is None


@pytest.mark.parametrize("form", ["ndjson", "json"])
def test_a_number_for_a_time_outside_of_the_years_is_refused(
    stores: Stores, bench: Any, form: str
) -> None:
    step, text = FORMATS[form]
    dataset = created(stores, read=step(**_declared("Timestamp")))
    body = text.replace('"{}"', "{}").format(10**17).encode()
    with pytest.raises(BadInput, match="`v`"):
        post(stores, bench, dataset, body)


# --- conversions ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["BIGINT", "DATE NOT NULL", "DOUBLE", "TIMESTAMP", "BOOLEAN"])
def test_bad_texts_are_refused_before_they_are_parsed(
    stores: Stores, bench: Any, kind: str
) -> None:
    dataset = created(stores, read=ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}")))
    with pytest.raises(BadRow, match="column `v`"):
        post(stores, bench, dataset, parquet(TEXTS))


def test_a_day_far_off_can_be_kept_as_text(stores: Stores, bench: Any) -> None:
    dataset = created(stores, read=ReadStepParquet(ddl_schema=("id BIGINT", "v STRING")))
    post(stores, bench, dataset, parquet(counts(pa.date32(), DAYS)))
    assert [row["v"] for row in read(stores, dataset)] == ["1970-01-01", "29349-01-26", None]


# --- engines ----------------------------------------------------------------------------------


def sql(query: str, engine: str = "datafusion") -> TransformSql:
    return TransformSql(engine=engine, queries=(SqlQueryStep(query=query),))


def preprocessed(stores: Stores, query: str) -> Dataset:
    source = AddPushSource(
        source_name="default",
        read=ReadStepParquet(),
        preprocess=sql(query),
        merge=MergeStrategyAppend(),
    )
    return created(stores, source=source)


def test_bad_texts_do_not_reach_the_engine(stores: Stores, bench: Any) -> None:
    dataset = preprocessed(stores, "select id, v from input")
    with pytest.raises(BadRow, match="column `v`: row 2: a text that is no UTF-8"):
        post(stores, bench, dataset, parquet(TEXTS))


def test_a_query_may_mend_days_far_off(stores: Stores, bench: Any) -> None:
    body = parquet(counts(pa.date32(), DAYS))
    mending = "select id, case when id = 1 then null else v end as v from input"
    dataset = preprocessed(stores, mending)
    assert post(stores, bench, dataset, body).rows_added == 3
    other = created(
        stores,
        number=2,
        source=AddPushSource(
            source_name="default",
            read=ReadStepParquet(),
            preprocess=sql("select id, v from input"),
            merge=MergeStrategyAppend(),
        ),
    )
    with pytest.raises(BadRow, match="years 1 to 9999"):
        post(stores, bench, other, body)


FAR = "select event_time, n, arrow_cast(cast(n * 10000000 as int), 'Date32') as v from {}"


def test_a_result_of_a_derivative_with_a_bad_value_is_not_sealed(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    from tests.workers.derivatives import add_rows, root

    cities = root(stores, "cities")
    far = derivative(stores, "far", [cities], FAR.format("cities"))
    rows = [("2024-01-01T00:00:00Z", "A", 0), ("2024-01-01T00:00:00Z", "A", 1)]
    add_rows(stores, cities, rows, tmp_path, at=10)
    head = far.head()
    with pytest.raises(BadRow, match="column `v`: row 2 of the result: a day outside"):
        run(stores, far, bench)
    assert far.head() == head


@pytest.mark.spark
def test_results_of_spark_are_judged(stores: Stores, tmp_path: Path, spark: Any) -> None:
    from tests.workers.derivatives import add_rows, root

    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines

    bench = node_of(stores, tmp_path)
    engines = Engines(session=spark, first=SparkEngine(spark))
    on_spark = dataclasses.replace(bench, engines=engines)
    cities = root(stores, "cities")
    query = "select event_time, date_add(date'1970-01-01', cast(n as int)) as v from cities"
    far = derivative(stores, "far", [cities], query, engine="spark")
    rows = [("2024-01-01T00:00:00Z", "A", 0), ("2024-01-01T00:00:00Z", "A", DAYS)]
    add_rows(stores, cities, rows, tmp_path, at=10)
    with pytest.raises(BadRow, match="column `v`: row 2 of the result: a day outside"):
        run(stores, far, on_spark)

    source = AddPushSource(
        source_name="default",
        read=ReadStepNdJson(ddl_schema=("n INT",)),
        preprocess=sql("select date_add(date'1970-01-01', n) as v from input", engine="spark"),
        merge=MergeStrategyAppend(),
    )
    dataset = created(stores, number=3, source=source)
    with pytest.raises(BadRow, match="column `v`: row 2: a day outside"):
        post(stores, on_spark, dataset, b'{"n": 0}\n{"n": 10000000}\n')


# --- what is stored already -------------------------------------------------------------------


def test_a_dataset_that_has_bad_values_goes_on(
    stores: Stores, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of earlier versions and of peers are in histories; corrections repeat them."""
    from odf_workers.readers.formats import parquet as reader
    from odf_workers.stages import normalize

    dataset = created(
        stores, read=ReadStepParquet(), merge=MergeStrategySnapshot(primary_key=("id",))
    )
    with monkeypatch.context() as before:
        for module in (reader, normalize):
            before.setattr(module, "first_misfit", lambda *_, **__: None)
        post(stores, bench, dataset, parquet(TEXTS, d=counts(pa.date32(), DAYS)))
    good = parquet(pa.array(["a", "b", "c"]), d=pa.array([1, 2, 3], pa.int32()).view(pa.date32()))
    receipt = post(stores, bench, dataset, good)
    assert receipt.rows_corrected == 3


# --- what is said -----------------------------------------------------------------------------

FINE = pa.array([0, 1_234_567, None], pa.int64()).view(pa.timestamp("us", "UTC"))


def warnings(stores: Stores, bench: Any, body: bytes, step: ReadStep, **more: Any) -> list[str]:
    number = more.pop("number", 1)
    return list(post(stores, bench, created(stores, number=number, read=step), body).warnings)


def test_cut_microseconds_are_said(stores: Stores, bench: Any) -> None:
    [said] = warnings(stores, bench, parquet(FINE), ReadStepParquet())
    assert "`v` has times finer than milliseconds" in said
    whole = parquet(FINE.cast(pa.timestamp("ms", "UTC"), safe=False).cast(FINE.type))
    assert warnings(stores, bench, whole, ReadStepParquet(), number=2) == []


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (pa.array([1735689600]), "TIMESTAMP", "times of January 1970"),
        (pa.array([1735689600000]), "TIMESTAMP", None),
        (pa.array([None, 1], pa.duration("s")), "BIGINT", "stored as bare counts of seconds"),
        (pa.array([1], pa.duration("us")), "STRING", "stored as bare counts of microseconds"),
        (pa.array([Decimal("12345678901234567.89")]), "DOUBLE", "numbers lose digits"),
        (pa.array([Decimal("1.10")]), "DOUBLE", None),
        (pa.array([1.239]), "DECIMAL(5, 2)", "digits are rounded"),
        (pa.array([1.1], pa.float32()), "DECIMAL(5, 2)", None),
        (pa.array([0], pa.date32()), "BIGINT", "times are stored as bare counts"),
        (pa.array([0], pa.timestamp("us")), "BIGINT", "times are stored as bare counts"),
        (pa.array([20_089, 2025]), "DATE", "look like years or days of a spreadsheet"),
        (pa.array([45_658], pa.int32()), "DATE", "look like years or days of a spreadsheet"),
        (pa.array([29_220]), "DATE", "look like years or days of a spreadsheet"),
        (pa.array([20_089, -7000]), "DATE", None),
        (pa.array([45_658]), "TIMESTAMP", "are times of January 1970"),
        (pa.array([0, 20_089]), "TIMESTAMP", None),
        (pa.array([0, 1, None]), "BOOLEAN", None),
        (pa.array([math.inf, math.nan, None]), "FLOAT", None),
    ],
)
def test_conversions_of_parquet_columns_to_another_meaning_are_said(
    stores: Stores, bench: Any, values: pa.Array, kind: str, said: str | None
) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}"))
    found = warnings(stores, bench, parquet(values), step)
    assert [said in one for one in found] == [True] if said else found == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 2]), "BOOLEAN"),
        (pa.array([0.0, 0.5]), "BOOLEAN"),
        (pa.array([1.5, 1e300]), "FLOAT"),
        (pa.array([Decimal(1), Decimal(10) ** 50]), "FLOAT"),
    ],
)
def test_numbers_of_parquet_columns_that_a_type_cannot_have_are_refused(
    stores: Stores, bench: Any, values: pa.Array, kind: str
) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}"))
    with refusing("BadRow", match="row 2 is not a value of type"):
        warnings(stores, bench, parquet(values), step)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
@pytest.mark.parametrize(
    ("number", "said"), [(2025, True), (45_658, True), (29_220, True), (20_089, False)]
)
def test_numbers_of_json_that_are_no_days_are_said(
    stores: Stores, bench: Any, number: int, said: bool, kind: str
) -> None:
    step = ReadStepNdJson(ddl_schema=("id BIGINT", f"v {kind}"))
    found = warnings(stores, bench, b'{"id":1,"v":%d}\n' % number, step)
    assert ["look like years or days of a spreadsheet" in one for one in found] == [True] * said


MICROS, TWO_DIGITS = "2025-01-01T00:00:00.123456Z", "DECIMAL(10, 2)"
LOST = [
    ("TIMESTAMP", MICROS, "times finer than milliseconds"),
    ("TIMESTAMP", "20250101T000000.1234Z", "times finer than milliseconds"),
    ("DATE", "2025-01-01T12:00:00Z", "times of day"),
    (TWO_DIGITS, "1.234", "more digits after the point than 2"),
    (TWO_DIGITS, "1234e-3", "more digits after the point than 2"),
    ("TIMESTAMP", "2025-01-01T00:00:00.123000Z", None),
    ("TIMESTAMP", "2025-01-01 10:00:00", "times without a zone, which are taken to be in UTC"),
    ("TIMESTAMP", "2025-01-01T10:00", "times without a zone"),
    ("TIMESTAMP", "2025-01-01", "times without a zone"),
    ("TIMESTAMP", "2025-01-01T10:00:00.123", "times without a zone"),
    ("TIMESTAMP", "2025-01-01T10:00:00+01:00", None),
    ("TIMESTAMP", "2025-01-01T10:00:00-0100", None),
    ("TIMESTAMP", "2025-01-01T10:00:00+01", None),
    ("TIMESTAMP", "2025-01-01 10:00:00 Europe/Berlin", None),
    ("DATE", "2025-01-01T00:00:00Z", None),
    (TWO_DIGITS, "1.2300", None),
    (TWO_DIGITS, "1234e-2", None),
    ("DOUBLE", "9007199254740993", "more digits than a Float64 keeps"),
    ("DOUBLE", "0.12345678901234567890", "more digits than a Float64 keeps"),
    ("DOUBLE", "1e-400", "more digits than a Float64 keeps"),
    ("FLOAT", "16777217", "more digits than a Float32 keeps"),
    ("DOUBLE", "0.30000000000000004", None),
    ("DOUBLE", "1.00000000000000005551e-01", None),
    ("DOUBLE", "5.684341886080801e-14", None),
    ("FLOAT", "0.1", None),
    ("BIGINT", "01067", "figures with leading zeros"),
    ("INT", "-007", "figures with leading zeros"),
    ("DOUBLE", "007.5", "figures with leading zeros"),
    (TWO_DIGITS, "00.25", "figures with leading zeros"),
    ("BIGINT", "0", None),
    ("BIGINT", "-10", None),
    ("DOUBLE", "0.5", None),
]


@pytest.mark.parametrize(("kind", "text", "said"), LOST)
@pytest.mark.parametrize("rows", [1, 3_000], ids=["a row", "many"])
def test_what_texts_lose_is_said_in_all_formats(
    stores: Stores, bench: Any, kind: str, text: str, said: str | None, rows: int
) -> None:
    """Readers have a quick way for many rows, and another one for few."""
    ddl = {"ddl_schema": (f"v {kind}",)}
    lines = b"".join([b'{"v": "%b"}\n' % text.encode()] * rows)
    given: list[tuple[ReadStep, bytes]] = [
        (ReadStepCsv(header=True, **ddl), b"v\n" + f"{text}\n".encode() * rows),
        (ReadStepNdJson(**ddl), lines),
        (ReadStepNdJson(**ddl), lines.replace(b'"v"', b'"\\u0076"')),
        (ReadStepJson(**ddl), b"[" + lines.strip().replace(b"\n", b",") + b"]"),
    ]
    parquet_step = ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}"))
    given.append((parquet_step, parquet(pa.array([text] * rows))))
    if kind in (TWO_DIGITS, "DOUBLE", "FLOAT") and not text.startswith("00"):
        given.append((ReadStepNdJson(**ddl), lines.replace(f'"{text}"'.encode(), text.encode())))
    for number, (step, body) in enumerate(given, 1):
        found = warnings(stores, bench, body, step, number=number)
        assert [said in one for one in found] == [True] if said else found == []


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize(("zone", "said"), [(None, True), ("UTC", False), ("+02:00", False)])
def test_times_of_parquet_columns_without_a_zone_are_said(
    stores: Stores, bench: Any, declares: bool, zone: str | None, said: bool
) -> None:
    times = pa.array([1_767_225_600_000, None], pa.timestamp("ms", zone))
    step = ReadStepParquet(ddl_schema=("id BIGINT", "v TIMESTAMP") if declares else None)
    text = "column `v` has times without a zone, which are taken to be in UTC"
    assert warnings(stores, bench, parquet(times), step) == ([text] if said else [])


def test_an_event_time_that_nobody_declared_is_cut_with_a_warning(
    stores: Stores, bench: Any
) -> None:
    body = f'{{"event_time": "{MICROS}"}}\n'.encode()
    [said] = warnings(stores, bench, body, ReadStepNdJson())
    assert "`event_time` has times finer than milliseconds" in said


def test_columns_that_are_not_stored_are_said(stores: Stores, bench: Any) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT",))
    [said] = warnings(stores, bench, parquet(FINE, extra=FINE), step)
    assert said == "columns that the schema does not name are not stored: `extra`, `v`"


def test_an_unknown_column_of_nulls_is_text(stores: Stores, bench: Any) -> None:
    body = parquet(pa.nulls(3))
    [said] = warnings(stores, bench, body, ReadStepParquet())
    assert "`v` holds nulls only, and is stored as text" in said


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        (pa.array([1.5, 2.0]), "BIGINT", "fractions are cut off"),
        (pa.array([(1 << 53) + 1, 1]), "DOUBLE", "numbers lose digits"),
        (pa.array([(1 << 64) - 1, 1], pa.uint64()), "DOUBLE", "numbers lose digits"),
        (pa.array([0.1, 1.0]), "FLOAT", "numbers lose digits"),
        (pa.array(["1.555", "1"]).cast(pa.decimal128(6, 3)), "DECIMAL(6, 2)", "are rounded"),
        (pa.array(["1.5", "1"]).cast(pa.decimal128(6, 1)), "BIGINT", "fractions are cut off"),
        (FINE.slice(0, 2), "DATE", "times of day are cut off"),
        (pa.array([1.0, None, float("nan")]), "FLOAT", None),
        (pa.array([1, 2]), "DOUBLE", None),
        (pa.array([1.0, 2.0]), "BIGINT", None),
        (pa.array(["1.500", "1"]).cast(pa.decimal128(6, 3)), "DECIMAL(6, 2)", None),
        (pa.array([0, 86_400_000]).view(pa.timestamp("ms")), "DATE", None),
    ],
)
def test_a_conversion_that_loses_something_is_said(
    stores: Stores, bench: Any, column: pa.Array, kind: str, said: str | None
) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}"))
    found = warnings(stores, bench, parquet(column), step)
    assert len(found) == (said is not None)
    assert all("column `v` is " in text and str(said) in text for text in found)


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(6, 1)])
def test_a_fraction_in_a_key_of_whole_numbers_is_refused(
    stores: Stores, bench: Any, kind: pa.DataType
) -> None:
    step = ReadStepParquet(ddl_schema=("id BIGINT", "v BIGINT"))
    merge = MergeStrategyUpsertStream(primary_key=("v",))
    dataset = created(stores, read=step, merge=merge)
    post(stores, bench, dataset, parquet(pa.array(["1.0", "2.0"]).cast(kind)))
    head = dataset.head()
    with refusing("CannotMerge", match=r"`v` .* 1\.5"):
        post(stores, bench, dataset, parquet(pa.array(["3.0", "1.5"]).cast(kind)))
    assert dataset.head() == head


@pytest.mark.parametrize(("value", "kind"), [(1 << 63, "BIGINT"), (1 << 32, "INT")])
def test_a_number_that_does_not_fit_is_refused(
    stores: Stores, bench: Any, value: int, kind: str
) -> None:
    dataset = created(stores, read=ReadStepParquet(ddl_schema=("id BIGINT", f"v {kind}")))
    with pytest.raises(BadRow, match="column `v`: row 2"):
        post(stores, bench, dataset, parquet(pa.array([1, value], pa.uint64())))


# --- columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["{}", "[{}]", '{"a": {}}'])
def test_objects_without_members_are_refused_with_their_column(
    stores: Stores, bench: Any, value: str
) -> None:
    dataset = created(stores, read=ReadStepNdJson())
    with pytest.raises(BadInput, match="column `v` holds nulls or empty objects only"):
        post(stores, bench, dataset, f'{{"id": 1, "v": {value}}}\n'.encode())


def test_an_object_without_members_is_taken_where_the_members_are_known(
    stores: Stores, bench: Any
) -> None:
    dataset = created(stores, read=ReadStepNdJson())
    post(stores, bench, dataset, b'{"v": {"a": 1}}\n')
    post(stores, bench, dataset, b'{"v": {}}\n')
    assert [row["v"] for row in read(stores, dataset)] == [{"a": 1}, {"a": None}]


def test_names_that_differ_in_case_only_are_said_once(stores: Stores, bench: Any) -> None:
    dataset = created(stores, read=ReadStepNdJson())
    [said] = post(stores, bench, dataset, b'{"a": 1, "A": 2, "Op": 3}\n').warnings[:1]
    assert "columns `op` and `Op` differ in case only" in said
    assert post(stores, bench, dataset, b'{"a": 1, "A": 2, "Op": 3}\n').warnings == ()


def test_a_name_that_is_empty_is_said(stores: Stores, bench: Any) -> None:
    dataset = created(stores, read=ReadStepNdJson())
    [said] = post(stores, bench, dataset, b'{"": 1, "a": 2}\n').warnings[:1]
    assert said.startswith("a column has the name '', which shows nothing")


NESTED = pa.table(
    {
        "v": pa.array([[{"a": 1, "b": "x"}], [], None]),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    }
)


def test_lists_of_objects_and_maps_are_stored_as_json_if_they_are_declared_as_text(
    stores: Stores, bench: Any
) -> None:
    sink = io.BytesIO()
    pq.write_table(NESTED, sink)
    undeclared = created(stores, read=ReadStepParquet())
    with pytest.raises(BadInput, match=r"column `v` is list.*: declare it as String"):
        post(stores, bench, undeclared, sink.getvalue())
    step = ReadStepParquet(ddl_schema=("v STRING", "m STRING"))
    dataset = created(stores, number=2, read=step)
    post(stores, bench, dataset, sink.getvalue())
    rows = [(row["v"], row["m"]) for row in read(stores, dataset)]
    assert rows[0] == ('[{"a":1,"b":"x"}]', '[{"key":"k","value":1}]')
    assert rows[1:] == [("[]", "[]"), (None, None)]


def test_objects_of_json_files_are_stored_as_json_by_an_attribute(
    stores: Stores, bench: Any
) -> None:
    from odf_protocol.codec.manifests import from_data
    from odf_protocol.metadata.schema import DataSchema

    field = {"name": "v", "type": {"kind": "String"}}
    schema = {"fields": [field], "extra": {"odf-node/jsonNumbers": "text"}}
    dataset = created(stores, read=ReadStepNdJson(schema=from_data(schema, DataSchema)))
    post(stores, bench, dataset, b'{"v": [{"b": 1.50, "a": "x"}]}\n{"v": "text"}\n')
    assert [row["v"] for row in read(stores, dataset)] == ['[{"a":"x","b":1.50}]', "text"]


INNER = pa.struct([("a", pa.int64())])
OBJECTS = pa.schema([("id", pa.int64()), ("v", pa.struct([("x", pa.int64()), ("inner", INNER)]))])
GIVEN = {"x": 1, "y": 2, "inner": {"a": 1, "b": 2}}


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_fields_of_objects_that_no_member_takes_are_told(
    stores: Stores, bench: Any, form: str
) -> None:
    declared = from_arrow(OBJECTS)
    if form == "parquet":
        body, step = parquet(pa.array([GIVEN])), ReadStepParquet(schema=declared)
    else:
        body, step = ndjson([{"id": 1, "v": GIVEN}]), ReadStepNdJson(schema=declared)
    told = [each for each in warnings(stores, bench, body, step) if "does not name" in each]
    assert sorted(each.partition("field ")[2][:3] for each in told) == ["`b`", "`y`"]
    assert all("column `v`" in each for each in told)
