"""`format("odf")`: a user's Spark reads datasets of a node and of folders, batches and streams."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

import plain_values
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from door_tables import MANY, TAKEN, in_order, make_door_tables, read_rows
from reading_page import blocks
from service import NOON, Chain, Service, described, seeded, serving, ten_rows
from table_made import TableMade
from user_spark import UserSpark, user_spark

import odf_node
from odf_protocol.columns.arrow_digest import digest_of
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import AddData, DataSlice, OffsetInterval, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind, Visibility

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("source") / "node") as service:
        yield service


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserSpark]:
    with user_spark(tmp_path_factory.mktemp("user")) as spark:
        spark.run("import odf_node; spark.dataSource.register(odf_node.SparkSource)")
        yield spark


@pytest.fixture(scope="module")
def url(service: Service) -> str:
    service.keep(ten_rows().add_rows(5).add_rows(7), "kamu/city")
    return f"{service.url}/city"


def test_a_dataset_is_read_in_parts_of_slices(spark: UserSpark, url: str) -> None:
    for most_bytes, parts in ((1, 3), (1 << 20, 1)):
        found = spark.run(
            """
            frame = spark.read.format("odf").option("maxPartitionBytes", most_bytes).load(url)
            rows = frame.orderBy("offset").collect()
            found = [frame.rdd.getNumPartitions(), [[row.offset, row.city] for row in rows],
                     frame.schema.names, str(rows[0].system_time)]
            """,
            url=url,
            most_bytes=most_bytes,
        )
        assert found == [
            parts,
            [[n, f"c{n}"] for n in range(22)],
            ["offset", "op", "system_time", "event_time", "city", "population"],
            "2050-01-01 12:00:00",
        ]


def test_the_example_of_the_page_runs(spark: UserSpark, service: Service) -> None:
    service.keep(ten_rows(), "kamu/cities")
    (text,) = blocks("spark", service.url)
    assert spark.run(text) == [[0, 10]]


def test_columns_and_filters_are_options_and_filters_of_spark_are_taken(
    spark: UserSpark, url: str
) -> None:
    found = spark.run(
        """
        import pyspark.sql.functions as F
        asked = spark.read.format("odf").option("columns", "city,offset")
        some = asked.option("filter", "offset:ge:12\\noffset:lt:16").load(url)
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        wide = spark.read.format("odf").option("maxPartitionBytes", 1)
        few = wide.option("filterPushdown", True).load(url)
        few = few.where((F.col("offset") > 16) & F.col("city").isin("c17", "c3"))
        found = [[list(row) for row in some.collect()], [row.offset for row in few.collect()],
                 few.rdd.getNumPartitions()]
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        """,
        url=url,
    )
    assert found == [[["c12", 12], ["c13", 13], ["c14", 14], ["c15", 15]], [17], 1]


def test_a_block_a_token_and_a_folder(
    spark: UserSpark, service: Service, url: str, tmp_path: Path
) -> None:
    chain = ten_rows()
    first = str(chain.head)
    service.keep(chain.add_rows(4), "kamu/hidden", Visibility.PRIVATE)
    hidden, token = f"{service.url}/hidden", service.token()
    odf_node.pull(hidden, tmp_path / "copy", token=token)
    counts = """
        def count(where, **options):
            return spark.read.format("odf").options(**options).load(where).count()
        found = [count(hidden, token=token), count(copy, at=first), count(copy)]
    """
    copy = str(tmp_path / "copy")
    names = {"token": token, "hidden": hidden, "first": first, "copy": copy}
    assert spark.run(counts, **names) == [14, 10, 14]
    with pytest.raises(AssertionError, match=r"no dataset|nothing is there"):
        spark.run("spark.read.format('odf').load(hidden)", hidden=hidden)


def test_values_of_all_types_are_those_of_the_dataset(spark: UserSpark, service: Service) -> None:
    chain = _all_types()
    service.keep(chain, "kamu/types")
    found = spark.run(
        """
        row = spark.read.format("odf").load(url).collect()[0].asDict(recursive=True)
        found = {name: repr(value) for name, value in row.items()}
        """,
        url=f"{service.url}/types",
    )
    assert found["small"] == "200"
    assert found["large"] == f"Decimal('{2**64 - 1}')"
    assert found["price"] == "Decimal('1.25')"
    assert found["day"] == "datetime.date(2026, 1, 2)"
    assert found["local"] == "datetime.datetime(2026, 1, 2, 3, 4, 5)"
    assert found["tags"] == "['a', 'b']"
    assert found["place"] == "{'x': 1, 'y': None}"
    assert found["raw"] == "b'\\x00\\x01'"
    assert found["nothing"] == "None"


def test_many_slices_and_rows_taken_back_are_read(spark: UserSpark, service: Service) -> None:
    make_door_tables(service)
    for name, projection in ((TAKEN, None), (TAKEN, "changelog"), (TAKEN, "state"), (MANY, None)):
        found = spark.run(
            """
            import sys
            sys.path.append(support)
            from plain_values import plain
            reader = spark.read.format("odf")
            rows = (reader.option("projection", projection) if projection else reader).load(url)
            found = [plain(row.asDict(recursive=True)) for row in rows.collect()]
            few = rows.select("id").filter("id >= 3").collect()
            assert sorted(row.id for row in few) == sorted(r["id"] for r in found if r["id"] >= 3)
            """,
            url=f"{service.url}/{name}",
            projection=projection,
            support=str(Path(plain_values.__file__).parent),
        )
        assert in_order(found) == read_rows(service, name, projection or "facts")


def test_a_stream_gives_each_row_in_one_batch_until_its_history_is_replaced(
    spark: UserSpark, service: Service, tmp_path: Path
) -> None:
    chain = ten_rows().add_rows(3).add_rows(4)
    entry = service.keep(chain, "kamu/stream")
    names = {
        "url": f"{service.url}/stream",
        "out": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    run = """
        stream = spark.readStream.format("odf")
        for name, value in options.items():
            stream = stream.option(name, value)
        query = (stream.load(url).writeStream.format("parquet").option("path", out)
                 .option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
        query.awaitTermination()
        progress = [each.numInputRows for each in query.recentProgress if each.numInputRows]
        offsets = [row.offset for row in spark.read.parquet(out).orderBy("offset").collect()]
        found = [progress, offsets]
    """
    assert spark.run(run, options={"maxFilesPerTrigger": 1}, **names) == [
        [10, 3, 4],
        list(range(17)),
    ]
    service.extend(chain, 5)
    service.extend(chain, 2)
    assert spark.run(run, options={"maxRowsPerTrigger": 4}, **names) == [[4, 3], list(range(24))]
    service.node.stores.refs.move(entry.id, expected=chain.head, new=chain.blocks[3].hash)
    with pytest.raises(AssertionError, match="its history was replaced"):
        spark.run(run, options={}, **names)


def test_a_stream_that_is_killed_between_batches_goes_on_where_it_was(
    spark: UserSpark, service: Service, tmp_path: Path
) -> None:
    chain = ten_rows().add_rows(3).add_rows(4)
    service.keep(chain, "kamu/killed")
    names = {
        "url": f"{service.url}/killed",
        "out": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    run = """
        from pathlib import Path
        import json
        def take(frame, number):
            if number == fail_at:
                raise RuntimeError("the machine went away")
            offsets = [row.offset for row in frame.collect()]
            Path(out).mkdir(exist_ok=True)
            (Path(out) / str(number)).write_text(json.dumps(offsets))  # again: the same
        query = (spark.readStream.format("odf").option("maxFilesPerTrigger", 1)
                 .option("startingPosition", "2").load(url).writeStream.foreachBatch(take)
                 .option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
        try:
            query.awaitTermination()
        except Exception as error:
            assert fail_at >= 0, error
        found = [json.loads(each.read_text()) for each in sorted(Path(out).iterdir())]
    """
    assert spark.run(run, fail_at=1, **names) == [list(range(2, 10))]
    service.extend(chain, 1)
    batches = spark.run(run, fail_at=-1, **names)
    assert [n for batch in batches for n in sorted(batch)] == list(range(2, 18))
    assert batches[1] == [10, 11, 12]


def test_a_changed_byte_gives_no_row(spark: UserSpark, url: str, tmp_path: Path) -> None:
    odf_node.pull(url, tmp_path / "copy")
    file = max((tmp_path / "copy" / "data").iterdir(), key=lambda each: each.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    with pytest.raises(AssertionError, match="its bytes hash to"):
        spark.run("spark.read.format('odf').load(copy).collect()", copy=str(tmp_path / "copy"))


def test_columns_with_times_of_day_are_told_with_what_to_set(
    service: Service, tmp_path: Path
) -> None:
    """What a source of Python prints is in the log of the driver, as an error of Spark is."""
    columns = pa.schema([("at", pa.time64("us")), ("n", pa.int64())])
    made = TableMade(service.node.stores, "kamu/times", columns, visibility=Visibility.PUBLIC)
    made.add([{"at": time(1, 2, 3), "n": 1}])
    count = """
        import odf_node
        spark.dataSource.register(odf_node.SparkSource)
        reader = spark.read.format("odf")
        found = reader.option("columns", columns).load(url).count()
    """
    url = f"{service.url}/times"
    with user_spark(tmp_path) as spark:
        assert spark.run(count, url=url, columns="n,offset") == 1
        assert "times of day" not in (tmp_path / "spark.log").read_text()
        with pytest.raises(AssertionError, match="UNSUPPORTED_TIME_TYPE"):
            spark.run(count, url=url, columns="n,at")
        told = (tmp_path / "spark.log").read_text()
        assert "times of day in the columns at:" in told
        spark.run("found = spark.conf.set('spark.sql.timeType.enabled', 'true')")
        assert spark.run(count, url=url, columns="n,at") == 1


def _all_types() -> Chain:
    """One row, in columns of the types that Spark knows and of some that it does not."""
    utc = pa.timestamp("ms", "UTC")
    table = pa.table(
        {
            "offset": pa.array([0], pa.int64()),
            "op": pa.array([0], pa.int32()),
            "system_time": pa.array([NOON.millis], utc),
            "event_time": pa.array([NOON.millis], utc),
            "small": pa.array([200], pa.uint8()),
            "large": pa.array([2**64 - 1], pa.uint64()),
            "price": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
            "day": pa.array([datetime(2026, 1, 2, tzinfo=UTC).date()], pa.date32()),
            "local": pa.array([datetime(2026, 1, 2, 3, 4, 5)], pa.timestamp("ns")),
            "tags": pa.array([["a", "b"]], pa.list_(pa.string())),
            "place": pa.array(
                [{"x": 1, "y": None}], pa.struct({"x": pa.int64(), "y": pa.string()})
            ),
            "raw": pa.array([b"\x00\x01"], pa.binary()),
            "nothing": pa.array([None], pa.float64()),
        }
    )
    required = [field.with_nullable(number > 3) for number, field in enumerate(table.schema)]
    table = table.cast(pa.schema(required))
    chain = seeded().add(described(), SetDataSchema(schema=from_arrow(table.schema)))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    content = sink.getvalue()
    piece = DataSlice(
        logical_hash=digest_of(pq.ParquetFile(sink)).finish(),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=0, end=0),
        size=len(content),
    )
    chain.objects[ObjectKind.DATA, piece.physical_hash] = content
    return chain.add(
        AddData(
            prev_checkpoint=None,
            prev_offset=None,
            new_data=piece,
            new_checkpoint=None,
            new_watermark=NOON,
        )
    )
