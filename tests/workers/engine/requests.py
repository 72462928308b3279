"""Requests to engines: inputs as files, one iteration after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    TransformRequest,
    TransformRequestInput,
    TransformResponseSuccess,
    TransformSql,
    Watermark,
)

MS = pa.timestamp("ms", "UTC")
SYSTEM = [
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("op", pa.int32(), nullable=False),
    pa.field("system_time", MS, nullable=False),
    pa.field("event_time", MS, nullable=False),
]
NOW = Instant.parse("2024-05-01T00:00:00Z")


@dataclass(kw_only=True)
class Derivative:
    """Asks an engine for one iteration after the other, as a coordinator does."""

    engine: Any
    folder: Path
    transform: Any
    schemas: dict[str, pa.Schema]
    vocabs: dict[str, DatasetVocabulary] = field(default_factory=dict)
    vocab: DatasetVocabulary = field(default_factory=DatasetVocabulary)
    next_offset: int = 0
    checkpoint: Path | None = None
    rounds: int = 0
    files: dict[str, list[pa.Table]] = field(default_factory=dict)
    """How rows are spread over files, where that matters."""
    break_inputs: bool = False

    def run(
        self,
        rows: dict[str, pa.Table] | None = None,
        watermarks: dict[str, list[Instant]] | None = None,
        *,
        intervals: dict[str, tuple[int, int]] | None = None,
        system_time: Instant = NOW,
        listener: Any = None,
    ) -> Any:
        """The response; on success the next iteration goes on from there."""
        folder = self.folder / str(self.rounds)
        folder.mkdir(parents=True)
        self.rounds += 1
        request = TransformRequest(
            dataset_id=DatasetId(bytes(32)),
            dataset_alias=DatasetAlias.parse("out"),
            system_time=system_time,
            vocab=self.vocab,
            transform=self.transform,
            query_inputs=tuple(
                self._input(
                    at, alias, folder, (rows or {}).get(alias), watermarks or {}, intervals or {}
                )
                for at, alias in enumerate(self.schemas)
            ),
            next_offset=self.next_offset,
            prev_checkpoint_path=str(self.checkpoint) if self.checkpoint else None,
            new_checkpoint_path=str(folder / "checkpoint"),
            new_data_path=str(folder / "data"),
        )
        options = {} if listener is None else {"listener": listener}
        response = self.engine.execute_transform(request, **options)
        if isinstance(response, TransformResponseSuccess):
            if response.new_offset_interval is not None:
                self.next_offset = response.new_offset_interval.end + 1
            made = folder / "checkpoint"
            self.checkpoint = made if made.exists() else None
        return response

    @property
    def data(self) -> Path:
        """The slice of the last iteration."""
        return self.folder / str(self.rounds - 1) / "data"

    def table(self) -> pa.Table:
        return pq.read_table(self.data)

    def _input(
        self,
        at: int,
        alias: str,
        folder: Path,
        rows: pa.Table | None,
        watermarks: dict[str, list[Instant]],
        intervals: dict[str, tuple[int, int]],
    ) -> TransformRequestInput:
        schema = self.schemas[alias]
        schema_file = folder / f"schema-{at}"
        pq.write_table(schema.empty_table(), schema_file)
        paths: tuple[str, ...] = ()
        interval = None
        if rows is not None and rows.num_rows:
            written = []
            for number, part in enumerate(self.files.get(alias, [rows])):
                written.append(folder / f"input-{at}-{number}")
                pq.write_table(part, written[-1])
                if self.break_inputs:
                    written[-1].write_bytes(b"PAR1 but not really PAR1")
            paths = tuple(str(path) for path in written)
            offsets = rows.column(0)
            first, last = intervals.get(alias, (offsets[0].as_py(), offsets[-1].as_py()))
            interval = OffsetInterval(start=first, end=last)
        return TransformRequestInput(
            dataset_id=DatasetId(bytes([at + 1]) * 32),
            dataset_alias=DatasetAlias.parse(f"input-{at}"),
            query_alias=alias,
            vocab=self.vocabs.get(alias, DatasetVocabulary()),
            offset_interval=interval,
            data_paths=paths,
            schema_file=str(schema_file),
            explicit_watermarks=tuple(
                Watermark(system_time=NOW, event_time=mark) for mark in watermarks.get(alias, [])
            ),
        )


def sql(*queries: str, engine: str = "spark") -> TransformSql:
    """Steps `s0`, `s1`, …, and the last query, which is the result."""
    steps = [SqlQueryStep(alias=f"s{at}", query=query) for at, query in enumerate(queries[:-1])]
    return TransformSql(engine=engine, queries=(*steps, SqlQueryStep(query=queries[-1])))
