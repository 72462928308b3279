"""Promises of the engine port; every engine subclasses this and gives its `engine` fixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    SqlQueryStep,
    TransformSql,
)

INPUT = pa.table(
    {
        "n": pa.array([3, 1, 2], pa.int64()),
        "City.Name": pa.array(["x", "y", None], pa.string()),
        "at": pa.array([0, 1500, None], pa.timestamp("ms", "UTC")),
    }
)


class EngineContract:
    """What a coordinator may rely on."""

    def ask(self, engine: Any, folder: Path, *queries: str) -> Any:
        steps = [SqlQueryStep(alias=f"s{at}", query=q) for at, q in enumerate(queries[:-1])]
        transform = TransformSql(
            engine=engine.name, queries=(*steps, SqlQueryStep(query=queries[-1]))
        )
        pq.write_table(INPUT, folder / "in.parquet")
        return engine.execute_raw_query(
            RawQueryRequest(
                input_data_paths=(str(folder / "in.parquet"),),
                transform=transform,
                output_data_path=str(folder / "out.parquet"),
            )
        )

    def rows(self, folder: Path) -> list[dict[str, Any]]:
        return list(pq.read_table(folder / "out.parquet").to_pylist())

    def test_rows_come_in_the_order_of_the_input(self, engine: Any, tmp_path: Path) -> None:
        response = self.ask(engine, tmp_path, "select n, `City.Name` as city from input")
        assert response == RawQueryResponseSuccess(num_records=3)
        assert [row["n"] for row in self.rows(tmp_path)] == [3, 1, 2]

    def test_a_named_step_is_a_view_for_the_next(self, engine: Any, tmp_path: Path) -> None:
        self.ask(engine, tmp_path, "select n * 2 as m from input", "select m + 1 as k from s0")
        assert [row["k"] for row in self.rows(tmp_path)] == [7, 3, 5]

    def test_a_result_without_rows_keeps_its_schema(self, engine: Any, tmp_path: Path) -> None:
        response = self.ask(engine, tmp_path, "select n from input where n > 5")
        assert response == RawQueryResponseSuccess(num_records=0)
        assert pq.read_schema(tmp_path / "out.parquet").names == ["n"]

    def test_names_differ_by_case(self, engine: Any, tmp_path: Path) -> None:
        self.ask(engine, tmp_path, "select n as a, n + 1 as A from input", "select A from s0")
        assert [row["A"] for row in self.rows(tmp_path)] == [4, 2, 3]

    def test_equal_requests_give_equal_rows(self, engine: Any, tmp_path: Path) -> None:
        query = "select n % 2 as odd, count(*) as c, max(at) as at from input group by 1"
        first = [self.ask(engine, tmp_path, query), self.rows(tmp_path)]
        assert [self.ask(engine, tmp_path, query), self.rows(tmp_path)] == first

    @pytest.mark.parametrize(
        "query",
        [
            "select nope from input",
            "selec n from input",
            "select cast('x' as int) as n from input",
            "select 1; select 2",
            "drop table input",
            "create table t as select 1",
            "insert into input select * from input",
            "set spark.sql.ansi.enabled = false",
            "show tables",
            "select * from csv.`/etc/passwd`",
            "select transform(n) using 'cat' as (s string) from input",
            "select * from input where n in (select transform(n) using 'cat' as (s int))",
            "select reflect('java.lang.System', 'getProperty', 'user.home') as p from input",
            "select (select system.builtin.java_method('java.lang.System', 'lineSeparator')) as p",
            "",
        ],
    )
    def test_a_query_that_may_not_run_is_an_answer(
        self, query: str, engine: Any, tmp_path: Path
    ) -> None:
        response = self.ask(engine, tmp_path, query)
        assert isinstance(response, RawQueryResponseInvalidQuery)
        assert response.message

    def test_views_of_one_request_are_unknown_to_the_next(
        self, engine: Any, tmp_path: Path
    ) -> None:
        self.ask(engine, tmp_path, "select 1 as x", "select x from s0")
        response = self.ask(engine, tmp_path, "select x from s0")
        assert isinstance(response, RawQueryResponseInvalidQuery)
