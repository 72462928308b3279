"""Promises of the engine port about transforms; engines subclass this beside `EngineContract`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.workers.engine.changes import (
    APPEND,
    CITIES,
    NOW_IS,
    RETRACT,
    WAS,
    cities,
    listed,
    schema,
)
from tests.workers.engine.requests import NOW, Derivative, sql

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetVocabulary,
    OffsetInterval,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
    TransformSql,
)
from odf_workers.engines.port.port import EngineListener
from odf_workers.slices.write import described

ALL = "select op, event_time, city, n from cities"
EARLY, LATE = Instant.parse("2024-01-01T00:00:00Z"), Instant.parse("2024-02-01T00:00:00Z")


class Heard(EngineListener):
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.alive = 0

    def progress(self) -> None:
        self.alive += 1

    def warning(self, text: str) -> None:
        self.warnings.append(text)


class TransformContract:
    """What a coordinator may rely on when it asks for an iteration."""

    cuts_to_zero = False
    """Whether times finer than a millisecond are cut to zero; else to the millisecond before."""

    def derivative(
        self, engine: Any, folder: Path, *queries: str, inputs: Any = None, **more: Any
    ) -> Derivative:
        return Derivative(
            engine=engine,
            folder=folder,
            transform=sql(*queries, engine=engine.name),
            schemas=inputs or {"cities": CITIES},
            **more,
        )

    def refused(self, engine: Any, folder: Path, query: str, **more: Any) -> str:
        derivative = self.derivative(engine, folder, query, **more)
        rows = {alias: cities((APPEND, "a", 1)) for alias in derivative.schemas}
        response = derivative.run(rows)
        assert isinstance(response, TransformResponseInvalidQuery), response
        assert not derivative.data.exists()
        return response.message

    # --- the slice ------------------------------------------------------------------------

    def test_the_slice_has_system_columns_first_then_event_time(
        self, engine: Any, tmp_path: Path
    ) -> None:
        query = "select n * 2 as m, city, event_time from cities"
        derivative = self.derivative(engine, tmp_path, query, next_offset=7)
        response = derivative.run({"cities": cities((APPEND, "a", 1), (APPEND, "b", 2))})
        assert response == TransformResponseSuccess(
            new_offset_interval=OffsetInterval(start=7, end=8), new_watermark=None
        )
        table = derivative.table()
        assert table.column_names == ["offset", "op", "system_time", "event_time", "m", "city"]
        assert [str(kind) for kind in table.schema.types] == [
            "int64",
            "int32",
            "timestamp[ms, tz=UTC]",
            "timestamp[ms, tz=UTC]",
            "int64",
            "string",
        ]
        assert [field.nullable for field in table.schema] == [False] * 4 + [True] * 2
        assert listed(table, "offset", "op", "m", "city") == [(7, 0, 2, "a"), (8, 0, 4, "b")]
        assert {str(time) for time in table["system_time"].to_pylist()} == {
            "2024-05-01 00:00:00+00:00"
        }

    def test_names_of_system_columns_are_those_of_the_vocabularies(
        self, engine: Any, tmp_path: Path
    ) -> None:
        theirs = {"offset": "o", "op": "change", "system_time": "s", "event_time": "happened"}
        named = CITIES.names
        renamed = cities((APPEND, "a", 1), (RETRACT, "a", 1)).rename_columns(
            [theirs.get(name, name) for name in named]
        )
        vocabulary = DatasetVocabulary(
            offset_column="o",
            operation_type_column="change",
            system_time_column="s",
            event_time_column="happened",
        )
        derivative = self.derivative(
            engine,
            tmp_path,
            "select `change` as kind, happened as `at`, city from cities",
            inputs={"cities": renamed.schema},
            vocabs={"cities": vocabulary},
            vocab=DatasetVocabulary(operation_type_column="kind", event_time_column="at"),
        )
        assert isinstance(derivative.run({"cities": renamed}), TransformResponseSuccess)
        table = derivative.table()
        assert table.column_names == ["offset", "kind", "system_time", "at", "city"]
        assert table["kind"].to_pylist() == [APPEND, RETRACT]

    def test_a_slice_without_rows_still_tells_the_schema(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        assert derivative.run() == TransformResponseSuccess()
        empty = pq.read_schema(derivative.data)
        derivative.run({"cities": cities((APPEND, "a", 1))})
        assert pq.read_schema(derivative.data) == empty

    def test_equal_requests_give_equal_files(self, engine: Any, tmp_path: Path) -> None:
        rows = {"cities": cities(*[(APPEND, f"c{at % 7}", at) for at in range(300)])}
        made = []
        for name in ("one", "two"):
            derivative = self.derivative(engine, tmp_path / name, ALL)
            derivative.run(rows, {"cities": [EARLY]})
            made.append([derivative.data.read_bytes(), derivative.checkpoint.read_bytes()])
        assert made[0] == made[1]

    def test_rows_of_many_files_come_in_the_order_of_offsets(
        self, engine: Any, tmp_path: Path
    ) -> None:
        sizes = (3, 700, 5, 400, 1, 90)
        tables, start = [], 0
        for size in sizes:
            rows = [(APPEND, "x", start + at) for at in range(size)]
            tables.append(cities(*rows, start=start))
            start += size
        derivative = self.derivative(engine, tmp_path, ALL, files={"cities": tables})
        response = derivative.run({"cities": pa.concat_tables(tables)})
        assert isinstance(response, TransformResponseSuccess), response
        assert derivative.table()["n"].to_pylist() == list(range(start))

    def test_older_slices_may_lack_newer_columns(self, engine: Any, tmp_path: Path) -> None:
        grown = CITIES.append(pa.field("note", pa.string()))
        derivative = self.derivative(
            engine,
            tmp_path,
            "select event_time, city, note from cities",
            inputs={"cities": grown},
        )
        derivative.run({"cities": cities((APPEND, "a", 1))})
        assert listed(derivative.table(), "city", "note") == [("a", None)]

    def test_names_with_dots_blanks_and_quotes_are_names(self, engine: Any, tmp_path: Path) -> None:
        odd = schema(pa.field("a b.c", pa.int64()))
        rows = cities((APPEND, "x", 5)).select([0, 1, 2, 3, 5]).rename_columns(odd.names)
        derivative = self.derivative(
            engine,
            tmp_path,
            "select event_time, `a b.c` as `d.e f` from `acc/the.input`",
            inputs={"acc/the.input": odd},
        )
        response = derivative.run({"acc/the.input": rows.cast(odd)})
        assert isinstance(response, TransformResponseSuccess), response
        assert derivative.table()["d.e f"].to_pylist() == [5]

    def test_steps_are_views_and_the_last_one_is_the_result(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(
            engine,
            tmp_path,
            "select event_time, n + 1 as n from cities where city <> 'b'",
            "select event_time, n * 10 as n from s0",
        )
        derivative.run({"cities": cities((APPEND, "a", 1), (APPEND, "b", 2), (APPEND, "c", 3))})
        assert derivative.table()["n"].to_pylist() == [20, 40]

    def test_a_single_query_needs_no_steps(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.transform = TransformSql(engine=engine.name, query=ALL)
        derivative.run({"cities": cities((APPEND, "a", 1))})
        assert derivative.table().num_rows == 1

    def test_common_table_expressions_and_unions_keep_the_order_of_branches(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(
            engine,
            tmp_path,
            "with big as (select event_time, city, n from cities where n > 1) "
            "select event_time, city, -n as n from big "
            "union all select event_time, city, n from more "
            "union all select event_time, city, n from big",
            inputs={"cities": CITIES, "more": CITIES},
        )
        derivative.run(
            {
                "cities": cities(*[(APPEND, "a", n) for n in range(4)]),
                "more": cities((APPEND, "m", 100)),
            }
        )
        assert derivative.table()["n"].to_pylist() == [-2, -3, 100, 2, 3]

    def test_an_order_at_the_end_is_kept_and_made_total(self, engine: Any, tmp_path: Path) -> None:
        rows = [(APPEND, f"c{at * 7 % 5}", at * 3 % 4) for at in range(40)]
        derivative = self.derivative(
            engine, tmp_path, "select event_time, city, n from cities order by n desc"
        )
        derivative.run({"cities": cities(*rows)})
        found = listed(derivative.table(), "n", "event_time", "city")
        assert found == sorted(found, key=lambda row: (-row[0], row[1], row[2]))

    @pytest.mark.parametrize(
        ("query", "word"),
        [
            ("select event_time, city, `offset` from cities", "offset"),
            ("select event_time, event_time as system_time from cities", "system_time"),
            ("select city from cities", "event_time"),
            ("select city as event_time from cities", "event_time"),
            ("select event_time, city, n as city from cities", "city"),
            ("select event_time, null as nothing from cities", "nothing"),
            ("select event_time, 'x' as op from cities", "op"),
            ("select event_time, 9 as op from cities", "9"),
            ("select event_time, cast(null as int) as op from cities", "null"),
            (
                "select case when n > 0 then null else event_time end as event_time from cities",
                "null",
            ),
            ("select event_time, nope from cities", "nope"),
            ("selec event_time from cities", "selec"),
            ("", "SELECT"),
        ],
    )
    def test_a_result_that_is_no_slice_is_an_answer(
        self, query: str, word: str, engine: Any, tmp_path: Path
    ) -> None:
        assert word.lower() in self.refused(engine, tmp_path, query).lower()

    def test_times_are_cut_to_milliseconds(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(
            engine,
            tmp_path,
            "select event_time, cast('2020-01-01 00:00:00.123999' as timestamp) as t from cities",
        )
        derivative.run({"cities": cities((APPEND, "a", 1))})
        field = derivative.table().schema.field("t")
        assert str(field.type) == "timestamp[ms, tz=UTC]"
        assert str(derivative.table()["t"][0].as_py()) == "2020-01-01 00:00:00.123000+00:00"

    def test_times_before_1970_are_cut_as_the_engine_cuts_them(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(
            engine,
            tmp_path,
            "select event_time, cast('1969-12-31 23:59:59.999500' as timestamp) as t, "
            "cast('1960-01-01 00:00:00.000500' as timestamp) as u from cities",
        )
        derivative.run({"cities": cities((APPEND, "a", 1))})
        row = (
            derivative.table()
            .select(["t", "u"])
            .cast(pa.schema([("t", pa.int64()), ("u", pa.int64())]))
        )
        start = int(datetime(1960, 1, 1, tzinfo=UTC).timestamp()) * 1000
        wanted = (0, start + 1) if self.cuts_to_zero else (-1, start)
        assert (row["t"][0].as_py(), row["u"][0].as_py()) == wanted

    def test_an_event_time_may_be_a_date(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(
            engine, tmp_path, "select cast(event_time as date) as event_time, n from cities"
        )
        derivative.run({"cities": cities((APPEND, "a", 1))})
        assert derivative.table().schema.field("event_time").type == pa.date32()

    # --- changes --------------------------------------------------------------------------

    def test_operations_go_along_if_they_are_selected(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        heard = Heard()
        rows = ((APPEND, "a", 1), (WAS, "a", 1), (NOW_IS, "a", 2), (RETRACT, "a", 2))
        derivative.run({"cities": cities(*rows)}, listener=heard)
        assert listed(derivative.table(), "op", "city", "n") == list(rows)
        assert not heard.warnings

    def test_operations_that_are_left_out_are_a_warning(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, "select event_time, city from cities")
        heard = Heard()
        derivative.run({"cities": cities((APPEND, "a", 1))}, listener=heard)
        assert not heard.warnings
        derivative.run({"cities": cities((RETRACT, "a", 1), start=1)}, listener=heard)
        assert derivative.table()["op"].to_pylist() == [APPEND]
        assert len(heard.warnings) == 1
        assert "`op`" in heard.warnings[0]

    def test_halves_of_corrections_become_retractions_and_appends(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(engine, tmp_path, f"{ALL} where n > 10")
        derivative.run(
            {
                "cities": cities(
                    (WAS, "leaves", 20),
                    (NOW_IS, "leaves", 5),
                    (WAS, "enters", 5),
                    (NOW_IS, "enters", 20),
                    (WAS, "stays", 20),
                    (NOW_IS, "stays", 30),
                    (WAS, "out", 1),
                    (NOW_IS, "out", 2),
                )
            }
        )
        assert listed(derivative.table(), "op", "city", "n") == [
            (RETRACT, "leaves", 20),
            (APPEND, "enters", 20),
            (WAS, "stays", 20),
            (NOW_IS, "stays", 30),
        ]

    def test_corrections_of_different_inputs_are_no_pair(self, engine: Any, tmp_path: Path) -> None:
        columns = "op, event_time, city, n"
        derivative = self.derivative(
            engine,
            tmp_path,
            f"with x as (select {columns} from cities where n > 10) select {columns} from x "
            f"union all select {columns} from more where n > 10",
            inputs={"cities": CITIES, "more": CITIES},
        )
        derivative.run(
            {
                "cities": cities((WAS, "a", 20), (NOW_IS, "a", 5)),
                "more": cities((WAS, "b", 5), (NOW_IS, "b", 20)),
            }
        )
        assert listed(derivative.table(), "op", "city") == [(RETRACT, "a"), (APPEND, "b")]

    def test_corrections_whose_rows_multiply_stay_a_changelog(
        self, engine: Any, tmp_path: Path
    ) -> None:
        twice = {
            "spark": "explode(array(1, 2))",
            "datafusion": "unnest(make_array(1, 2))",
        }[engine.name]
        derivative = self.derivative(
            engine, tmp_path, f"select op, event_time, city, n, {twice} as k from cities"
        )
        derivative.run({"cities": cities((WAS, "a", 1), (NOW_IS, "a", 2), (APPEND, "b", 3))})
        state: list[tuple[Any, ...]] = [("a", 1, 1), ("a", 1, 2)]
        before = None
        for op, *row in listed(derivative.table(), "op", "city", "n", "k"):
            assert (before == WAS) == (op == NOW_IS)
            before = op
            if op in (RETRACT, WAS):
                state.remove(tuple(row))
            else:
                state.append(tuple(row))
        assert sorted(state) == [("a", 2, 1), ("a", 2, 2), ("b", 3, 1), ("b", 3, 2)]

    def test_changes_are_not_put_into_another_order(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, f"{ALL} order by n")
        response = derivative.run({"cities": cities((WAS, "a", 2), (NOW_IS, "a", 1))})
        assert isinstance(response, TransformResponseInvalidQuery)
        assert "ORDER BY" in response.message

    # --- watermarks -----------------------------------------------------------------------

    def test_the_watermark_is_the_smallest_of_the_inputs(self, engine: Any, tmp_path: Path) -> None:
        both = {"cities": CITIES, "more": CITIES}
        query = f"{ALL} union all select op, event_time, city, n from more"
        derivative = self.derivative(engine, tmp_path, query, inputs=both)
        assert derivative.run({}, {"cities": [LATE]}).new_watermark is None
        assert derivative.run({}, {"more": [EARLY]}).new_watermark == EARLY
        assert derivative.run({}, {}).new_watermark == EARLY
        assert derivative.run({}, {"more": [EARLY, LATE]}).new_watermark == LATE

    def test_without_watermarks_there_is_nothing_to_remember(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.run({"cities": cities((APPEND, "a", 1))})
        assert derivative.checkpoint is None

    def test_a_coordinator_that_repeats_watermarks_needs_no_checkpoint(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.run({}, {"cities": [EARLY]})
        derivative.checkpoint = None
        assert derivative.run({}, {"cities": [EARLY]}).new_watermark == EARLY

    def test_a_checkpoint_of_something_else_is_an_error_of_the_engine(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.checkpoint = tmp_path / "strange"
        derivative.checkpoint.write_bytes(b"\x00\x01PAR1")
        response = derivative.run({"cities": cities((APPEND, "a", 1))})
        assert isinstance(response, TransformResponseInternalError)

    def test_an_input_that_cannot_be_read_is_an_error_of_the_engine(
        self, engine: Any, tmp_path: Path
    ) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.break_inputs = True
        response = derivative.run({"cities": cities((APPEND, "a", 1))})
        assert isinstance(response, TransformResponseInternalError)

    # --- what is refused ------------------------------------------------------------------

    @pytest.mark.parametrize(
        "query",
        [
            "select max(event_time) as event_time, count(*) as c from cities where 1 = 0",
            "select event_time, city from cities limit 1",
            "select event_time, city from cities order by event_time limit 1",
            "select event_time, city from cities order by n offset 1",
            f"{ALL} except {ALL}",
            f"{ALL} intersect {ALL}",
            "select event_time from cities where n > (select avg(n) from more)",
            "select event_time from cities c where not exists (select 1 from more where n = c.n)",
            "select c.event_time from cities c where c.n in (select n from more)",
            "select timestamp '2020-01-01 00:00:00' as event_time, 1 as n",
            f"{ALL} union all select 0, timestamp '2020-01-01 00:00:00', 'x', 1",
        ],
    )
    def test_a_query_that_would_forget_is_refused(
        self, query: str, engine: Any, tmp_path: Path
    ) -> None:
        assert self.refused(engine, tmp_path, query, inputs={"cities": CITIES, "more": CITIES})

    @pytest.mark.parametrize(
        "expression",
        [
            "now()",
            "current_timestamp",
            "current_timestamp()",
            "current_date",
            "random()",
            "uuid()",
            "version()",
        ],
    )
    def test_what_depends_on_the_moment_is_refused(
        self, expression: str, engine: Any, tmp_path: Path
    ) -> None:
        self.refused(engine, tmp_path, f"select event_time, {expression} as x from cities")

    @pytest.mark.parametrize(
        "query",
        [
            "drop table cities",
            "create table t as select 1",
            "insert into cities select * from cities",
            "select event_time from cities; select event_time from cities",
            "select * from csv.`/etc/passwd`",
            "show tables",
        ],
    )
    def test_only_queries_of_the_inputs_run(self, query: str, engine: Any, tmp_path: Path) -> None:
        self.refused(engine, tmp_path, query)

    def test_inputs_of_one_request_are_unknown_to_the_next(
        self, engine: Any, tmp_path: Path
    ) -> None:
        self.derivative(engine, tmp_path / "one", ALL).run({"cities": cities((APPEND, "a", 1))})
        self.refused(engine, tmp_path / "two", ALL, inputs={"others": CITIES})

    # --- sameness -------------------------------------------------------------------------

    def test_the_logical_hash_is_that_of_the_rows(self, engine: Any, tmp_path: Path) -> None:
        """The same rows on every engine: the answer is written down here."""
        derivative = self.derivative(
            engine,
            tmp_path,
            "select op, event_time, city, n, cast(n as double) / 3 as third from cities",
        )
        derivative.run({"cities": cities(*[(APPEND, f"c{at}", at) for at in range(50)])})
        assert str(described(derivative.data, 0).logical_hash) == LOGICAL_HASH

    def test_the_moment_of_the_request_is_in_every_row(self, engine: Any, tmp_path: Path) -> None:
        derivative = self.derivative(engine, tmp_path, ALL)
        derivative.run({"cities": cities((APPEND, "a", 1))}, system_time=NOW)
        assert derivative.table()["system_time"].cast(pa.int64()).to_pylist() == [NOW.millis]


LOGICAL_HASH = "f9680c00120e1dcf112c07da09875b4f17e09e8e1162fd338094f63170da38ea788f91e8f36"
