"""DataFusion keeps the promises of the engine port, and reaches nothing but its input."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conformance.engine import EngineContract
from tests.conformance.engine_transforms import TransformContract
from tests.workers.engine.changes import APPEND, cities

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
    TransformSql,
)
from odf_workers.engines.datafusion.engine import DataFusionEngine, DataFusionLimits


class TestDataFusionEngine(EngineContract, TransformContract):
    cuts_to_zero = True

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Any:
        return DataFusionEngine()

    @pytest.mark.parametrize(
        "query",
        [
            "select * from '/etc/passwd'",
            "select * from 'IN'",
            'select * from "IN"',
            "copy input to 'OUT'",
            "create external table t stored as csv location '/etc/passwd'",
            "explain select 1",
            "describe input",
            "prepare p as select 1",
            "execute p",
            "show functions",
            "select * from information_schema.tables",
            "select * from read_csv('/etc/passwd')",
            "select * from parquet_metadata('IN')",
            "values (1)",
            "begin",
        ],
    )
    def test_nothing_but_the_input_can_be_read_or_written(
        self, query: str, engine: Any, tmp_path: Path
    ) -> None:
        query = query.replace("IN", str(tmp_path / "in.parquet"))
        query = query.replace("OUT", str(tmp_path / "stolen"))
        response = self.ask(engine, tmp_path, query)
        assert isinstance(response, RawQueryResponseInvalidQuery)
        assert not (tmp_path / "stolen").exists()

    @pytest.mark.parametrize("function", ["to_timestamp", "to_timestamp_millis"])
    def test_times_are_read_by_a_pattern(self, function: str, engine: Any, tmp_path: Path) -> None:
        texts = "(select concat('Jan ', n + 1 - n, ' 2000') as date from input where n is not null)"
        query = f"select {function}(date, '%b %e %Y') as event_time from {texts}"
        response = self.ask(engine, tmp_path, query)
        assert isinstance(response, RawQueryResponseSuccess), response

    def test_variables_of_the_process_are_no_tables(self, engine: Any, tmp_path: Path) -> None:
        request = pa.table({"secret": [1]})
        assert request.num_rows == 1
        for name in ("request", "read", "INPUT"):
            response = self.ask(engine, tmp_path, f"select * from {name}")
            assert isinstance(response, RawQueryResponseInvalidQuery)

    @pytest.mark.parametrize(
        "call", ["max(with_metadata(city, 'k', 'v'))", "count(*) filter (where getenv('x') = 'y')"]
    )
    def test_functions_that_are_not_allowed_are_unknown(
        self, call: str, engine: Any, tmp_path: Path
    ) -> None:
        """Also where nobody can look into a plan."""
        query = call.replace("city", "`City.Name`")
        response = self.ask(engine, tmp_path, f"select {query} as x from input")
        assert isinstance(response, RawQueryResponseInvalidQuery)
        assert "Invalid function" in response.message

    def test_required_columns_stay_required(self, engine: Any, tmp_path: Path) -> None:
        self.ask(engine, tmp_path, "select 1 as one, n from input")
        schema = pq.read_schema(tmp_path / "out.parquet")
        assert [field.nullable for field in schema] == [False, True]

    def test_a_result_without_end_is_refused(self, tmp_path: Path) -> None:
        engine = DataFusionEngine(DataFusionLimits(output_bytes=1 << 20))
        query = "select value % 7919 as v from generate_series(1, 1000000000000)"
        response = self.ask(engine, tmp_path, query)
        assert isinstance(response, RawQueryResponseInvalidQuery)
        assert "bytes" in response.message

    def test_a_query_beyond_its_memory_is_an_answer(self, tmp_path: Path) -> None:
        engine = DataFusionEngine(DataFusionLimits(pool_bytes=1 << 20))
        query = "select array_agg(value) as v from generate_series(1, 2000000)"
        response = self.ask(engine, tmp_path, query)
        assert isinstance(response, RawQueryResponseInvalidQuery)

    def test_several_files_are_read_one_after_the_other(self, tmp_path: Path) -> None:
        paths = []
        for at in range(3):
            paths.append(str(tmp_path / f"{at}.parquet"))
            pq.write_table(pa.table({"n": [at, at]}), paths[-1])
        response = DataFusionEngine().execute_raw_query(
            RawQueryRequest(
                input_data_paths=tuple(paths),
                transform=TransformSql(engine="datafusion", query="select n from input"),
                output_data_path=str(tmp_path / "out.parquet"),
            )
        )
        assert response == RawQueryResponseSuccess(num_records=6)
        assert [row["n"] for row in self.rows(tmp_path)] == [0, 0, 1, 1, 2, 2]

    @pytest.mark.parametrize(
        "query",
        [
            "select event_time from cities tablesample bernoulli (10)",
            "select event_time from cities prewhere n > 1",
            "select event_time from cities connect by n = 1",
            "select event_time from cities distribute by n",
            "select now() as event_time, value from range(1, 3)",
            "select to_timestamp(value) as event_time from generate_series(1, 3)",
            "select event_time, arrow_cast(city, 'Int64') as n from cities",
        ],
    )
    def test_what_would_be_passed_over_or_made_of_nothing_is_refused(
        self, query: str, engine: Any, tmp_path: Path
    ) -> None:
        assert self.refused(engine, tmp_path, query)

    def test_words_in_texts_and_names_are_no_matter(self, engine: Any, tmp_path: Path) -> None:
        query = "select event_time, 'no tablesample' as \"prewhere\" from cities -- tablesample"
        derivative = self.derivative(engine, tmp_path, query)
        assert isinstance(derivative.run(), TransformResponseSuccess)

    @pytest.mark.parametrize(
        "call", ["to_timestamp(t, '%d/%m/%Y')", "to_timestamp_millis(t, '%d/%m/%Y')"]
    )
    def test_times_that_cannot_be_read_from_texts_name_the_way_out(
        self, call: str, engine: Any, tmp_path: Path
    ) -> None:
        text = "select concat('07/03/202', n) as t from cities"
        query = f"select {call} as event_time from ({text})"
        derivative = self.derivative(engine, tmp_path, query)
        response = derivative.run({"cities": cities((APPEND, "a", 1), (APPEND, "b", 2))})
        assert isinstance(response, TransformResponseInvalidQuery), response
        assert "to_timestamp_millis(to_timestamp(text, pattern))" in response.message
        assert "cast(text as timestamp with time zone)" in response.message

    @pytest.mark.parametrize(
        ("text", "call"),
        [
            ("'07/03/202'", "to_timestamp_millis(to_timestamp(t, '%d/%m/%Y %H:%M:%S'))"),
            ("'2020-03-07T00:00:00.00'", "cast(t as timestamp with time zone)"),
        ],
    )
    def test_the_way_out_reads_times_from_texts(
        self, text: str, call: str, engine: Any, tmp_path: Path
    ) -> None:
        behind = "' 00:00:00'" if "%d" in call else "'Z'"
        texts = f"select concat({text}, n, {behind}) as t from cities"
        derivative = self.derivative(
            engine, tmp_path, f"select {call} as event_time from ({texts})"
        )
        response = derivative.run({"cities": cities((APPEND, "a", 1), (APPEND, "b", 2))})
        assert isinstance(response, TransformResponseSuccess), response
        times = derivative.table().column("event_time").to_pylist()
        if "%d" in call:
            assert times == [datetime(2021, 3, 7, tzinfo=UTC), datetime(2022, 3, 7, tzinfo=UTC)]
        else:
            assert [time.microsecond for time in times] == [1000, 2000]

    def test_a_transform_beyond_its_time_is_an_answer(self, tmp_path: Path) -> None:
        engine = DataFusionEngine(DataFusionLimits(seconds=0.5))
        query = (
            "select event_time, levenshtein(repeat(city, 200000), repeat('b', 200000)) as x "
            "from cities"
        )
        derivative = self.derivative(engine, tmp_path, query)
        response = derivative.run({"cities": cities((APPEND, "a", 1))})
        assert isinstance(response, TransformResponseInvalidQuery)
        assert "within" in response.message
