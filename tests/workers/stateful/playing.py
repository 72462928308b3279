"""A stateful query played run by run, with its state carried from file to file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import OffsetInterval, SqlQueryStep, TemporalTable, TransformSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME = pa.timestamp("ms", "UTC")
SYSTEM = {"offset": pa.int64(), "op": pa.int32(), "system_time": TIME}
Row = tuple[Any, ...]


def t(text: str | int) -> datetime:
    """`01-02` or `01-02T03:04` of the year 2000; a number is an hour of its first of January."""
    if isinstance(text, int):
        return datetime.fromtimestamp(946_684_800 + text * 3600, UTC)
    return datetime.fromisoformat(f"2000-{text}").replace(tzinfo=UTC)


class Play:
    """Rows are (op, event time, data …); offsets and system time are added."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        query: str | Sequence[tuple[str | None, str]],
        inputs: Mapping[str, Mapping[str, pa.DataType]],
        *,
        temporal: Mapping[str, Sequence[str]] | None = None,
        partitions: int | None = None,
        event_time: str = "event_time",
    ) -> None:
        from odf_workers.engines.stateful import StatefulInput, stateful_plan

        steps = [(None, query)] if isinstance(query, str) else query
        transform = TransformSql(
            engine="spark",
            queries=tuple(SqlQueryStep(alias=alias, query=text) for alias, text in steps),
            temporal_tables=tuple(
                TemporalTable(name=name, primary_key=tuple(key))
                for name, key in (temporal or {}).items()
            ),
        )
        self.folder, self.partitions = folder, partitions
        self.schemas = {
            alias: pa.schema({**SYSTEM, event_time: TIME, **columns})
            for alias, columns in inputs.items()
        }
        vocab = Vocab(event_time_column=event_time)
        given = [
            StatefulInput(alias=alias, schema=schema, vocab=vocab)
            for alias, schema in self.schemas.items()
        ]
        self.plan = stateful_plan(spark, transform, given, vocab)
        self.state: Path | None = None
        self.watermarks: dict[str, Instant | None] = dict.fromkeys(inputs)
        self.offsets = dict.fromkeys(inputs, 0)
        self.runs = 0
        self.all: list[Row] = []
        self.result: Any = None

    def step(
        self,
        rows: Mapping[str, Iterable[Sequence[Any]]] | None = None,
        watermarks: Mapping[str, datetime] | None = None,
    ) -> list[Row]:
        """Output rows of one run: (op, the query's columns …)."""
        from odf_workers.engines.stateful import NewRows, run

        self.runs += 1
        for alias, at in (watermarks or {}).items():
            self.watermarks[alias] = Instant(round(at.timestamp() * 1000) * 1_000_000)
        new = []
        for alias, schema in self.schemas.items():
            some = [tuple(row) for row in (rows or {}).get(alias, ())]
            new.append(
                NewRows(
                    alias=alias,
                    paths=(self._write(alias, schema, some),) if some else (),
                    interval=self._interval(alias, len(some)),
                    watermark=self.watermarks[alias],
                )
            )
        state, output = self.folder / f"state-{self.runs}", self.folder / f"out-{self.runs}"
        self.result = run(
            self.plan,
            new,
            state=self.state,
            new_state=state,
            output=output,
            scratch=self.folder,
            partitions=self.partitions,
        )
        self.state = state
        table = pq.read_table(output)
        assert table.num_rows == self.result.rows
        told = [tuple(row.values()) for row in table.to_pylist()]
        check_pairs([row[0] for row in told])
        self.all += told
        return told

    def folded(self) -> Counter[Row]:
        return fold(self.all)

    def _interval(self, alias: str, count: int) -> OffsetInterval | None:
        start = self.offsets[alias]
        self.offsets[alias] += count
        return OffsetInterval(start=start, end=start + count - 1) if count else None

    def _write(self, alias: str, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> Path:
        path = self.folder / f"{alias}-{self.runs}.parquet"
        start = self.offsets[alias]
        full = [(start + at, row[0], t(0), *row[1:]) for at, row in enumerate(rows)]
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*full, strict=True), schema, strict=True)
        ]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)
        return path


def check_pairs(operations: Sequence[int]) -> None:
    """−C is directly followed by +C, and +C follows −C only."""
    for one, other in pairwise([0, *operations, 0]):
        assert (one == 2) == (other == 3)


def fold(rows: Iterable[Row]) -> Counter[Row]:
    """A changelog as the rows it leaves; a row that was never there cannot go."""
    left: Counter[Row] = Counter()
    for operation, *data in rows:
        row = tuple(tuple(v) if isinstance(v, list) else v for v in data)
        if operation in (0, 3):
            left[row] += 1
        else:
            assert left[row] > 0, f"taken back but not there: {row}"
            left[row] -= 1
    return +left
