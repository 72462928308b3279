"""`Engine` on DataFusion: preprocessing, and transforms that compute row by row.

This side stages inputs, writes results, and enforces limits. A separate process plans and computes
the SQL of each query, confined to the files of its job (`process.py`).
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseSuccess,
    SqlQueryStep,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
)
from odf_protocol.typed import decode_json
from odf_storage.runtime.children import Born, Nursery

from ...confine import Mode, Rules, environment, program_reads
from ..iteration.transform import ComputedResult, Work, execute
from ..port.port import (
    INPUT,
    QUERY_SECONDS,
    QUIET,
    EngineListener,
    InvalidQuery,
    QueryTooSlow,
    Untraced,
    blamed_on,
    not_incremental,
    query_too_large,
    said,
    steps_of,
)
from ..port.query_size import QuerySize, check_size
from .child import (
    BATCH,
    END,
    QUESTION,
    Child,
    ChildGone,
    End,
    EngineQuestion,
    ResultHead,
    Step,
    TableSource,
    TooLate,
    TooMuchMemory,
    Watch,
    encoded,
)

_MODULE = f"{__package__}.process"
_ENVIRONMENT = {
    # Memory that an allocator reserves counts towards the limits.
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # A fork has no threads of its parent.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
_MAPPED_BYTES = 4 << 30
"""Bytes that a process may map beyond its data: code, files, reserved memory."""
_OUT_OF_POOL = "Resources exhausted"
_reads = cache(program_reads)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFusionLimits:
    """Limits of one query."""

    seconds: float = QUERY_SECONDS
    cpu_seconds: int = int(QUERY_SECONDS)
    pool_bytes: int = 512 << 20
    """Bytes of rows in memory before the engine spills them to disk."""
    process_bytes: int = 2 << 30
    """Bytes of memory of the process, including what single expressions build."""
    output_bytes: int = 64 << 30
    """Bytes of the largest result; a query can generate rows without input."""
    size: QuerySize = field(default_factory=QuerySize)


def installed_version() -> str | None:
    """Return the version of the library without loading it; only processes for queries load it."""
    try:
        return version_of("datafusion")
    except PackageNotFoundError:
        return None


class EngineBroken(Exception):
    """The process of a query failed, and the query is not the cause."""


class DataFusionEngine(Untraced):
    """`Engine` that runs every query in a separate process."""

    name = "datafusion"
    version = installed_version() or "unknown"

    def __init__(
        self, limits: DataFusionLimits | None = None, *, confinement: Mode = "auto"
    ) -> None:
        self._limits = limits or DataFusionLimits()
        self._confinement = confinement
        self._nursery = Nursery(_MODULE, environment(_ENVIRONMENT))

    def prepare(self) -> None:
        """Begin to load the engine, so that the first query need not wait for it."""
        self._nursery.start()

    def execute_raw_query(
        self, request: RawQueryRequest, listener: EngineListener = QUIET
    ) -> RawQueryResponse:
        output = Path(request.output_data_path)
        source = TableSource(name=INPUT, paths=list(request.input_data_paths))
        try:
            steps = self._steps(steps_of(request.transform))
            with (
                tempfile.TemporaryDirectory(prefix="spill-", dir=output.parent) as spill,
                self._asked([source], steps, spill, listener) as answer,
            ):
                count = _write(answer, output, self._limits.output_bytes)
        except InvalidQuery as bad:
            return RawQueryResponseInvalidQuery(message=said(bad))
        except EngineBroken as broken:
            return RawQueryResponseInternalError(message=str(broken))
        return RawQueryResponseSuccess(num_records=count)

    def execute_transform(
        self, request: TransformRequest, listener: EngineListener = QUIET
    ) -> TransformResponse:
        folder = Path(request.new_data_path).parent
        try:
            with (
                tempfile.TemporaryDirectory(prefix="spill-", dir=folder) as spill,
                ExitStack() as children,
            ):

                def compute(work: Work) -> ComputedResult:
                    return self._compute(work, spill, children)

                return execute(request, compute, listener, carried=False)
        except EngineBroken as broken:
            return TransformResponseInternalError(message=str(broken))

    def _compute(self, work: Work, spill: str, children: ExitStack) -> ComputedResult:
        if work.transform.temporal_tables:
            raise not_incremental("temporal tables")
        changes = any(item.has_changes for item in work.inputs)
        sources = [
            TableSource(
                name=item.alias,
                paths=[str(item.path)],
                columns=item.schema.names,
                number=at if changes else None,
                offset=item.vocab.offset_column,
            )
            for at, item in enumerate(work.inputs)
        ]
        answer = children.enter_context(
            self._asked(
                sources,
                self._steps(steps_of(work.transform)),
                spill,
                work.listener,
                iterates=True,
                operation=work.vocab.operation_type_column if changes else None,
            )
        )
        return ComputedResult(
            schema=answer.schema, batches=answer.batches(), splits_corrections=answer.head.splits
        )

    def _steps(self, steps: Sequence[SqlQueryStep]) -> list[Step]:
        """Convert the steps. Raise `InvalidQuery` if they are too long."""
        with blamed_on(steps):
            check_size(steps, self._limits.size)
        return [Step(query=step.query, alias=step.alias) for step in steps]

    @contextmanager
    def _asked(
        self,
        sources: list[TableSource],
        steps: list[Step],
        spill: str,
        listener: EngineListener,
        **more: Any,
    ) -> Iterator[_Answer]:
        """Start a process for the question and yield its answer. The process is ended when the
        block ends.

        Raises:
            InvalidQuery: the query is wrong, or exceeds its limits.
            EngineBroken: the process failed.
        """
        limits = self._limits
        question = EngineQuestion(
            sources=sources,
            steps=steps,
            rules=self._rules(sources, spill).text(),
            spill=spill,
            pool=limits.pool_bytes,
            **{"iterates": False, **more},
        )
        watch = Watch(
            seconds=limits.seconds, memory=limits.process_bytes, frame=limits.process_bytes
        )
        with _ends_told(limits), Child(self._born(), watch, listener) as child:
            child.send(QUESTION, encoded(question))
            yield _Answer(child, limits)

    def _born(self) -> Born:
        try:
            return self._nursery.born()
        except ChildProcessError:
            raise ChildGone(None) from None

    def _rules(self, sources: list[TableSource], spill: str) -> Rules:
        limits = self._limits
        paths = [str(Path(path).resolve()) for source in sources for path in source.paths]
        return Rules(
            reads=(*_reads(), *paths),
            writes=(spill,),
            address_space=limits.process_bytes + _MAPPED_BYTES,
            data=limits.process_bytes,
            cpu_s=limits.cpu_seconds,
            file_bytes=limits.output_bytes,
            mode=self._confinement,
        )


class _Answer:
    """The answer of a process: a head with the schema of the rows, then the rows."""

    def __init__(self, child: Child, limits: DataFusionLimits) -> None:
        self._limits, self._frames = limits, child.frames()
        kind, content = next(self._frames)
        if kind == END:
            self._check(content)
            raise EngineBroken("the process of the query said nothing")
        self.head = decode_json(bytes(content), ResultHead)
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(self.head.schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with _ends_told(self._limits):
            for kind, content in self._frames:
                if kind != BATCH:
                    self._check(content)
                    return
                batch = pa.ipc.read_record_batch(pa.py_buffer(content), self.schema)
                batch.validate(full=True)
                yield batch

    def _check(self, content: memoryview) -> None:
        """Read the `End` in `content`. Raise `TooMuchMemory`, `EngineBroken` or `InvalidQuery` if
        it gives a reason other than that all rows were sent."""
        end = decode_json(bytes(content), End)
        if end.starved:
            raise TooMuchMemory
        if end.failed is not None:
            raise EngineBroken(end.failed)
        if end.refused is not None:
            if _OUT_OF_POOL in end.refused:
                raise query_too_large(end.refused, "ODF_WORKER_DATAFUSION_PROCESS_BYTES")
            raise InvalidQuery(end.refused, **end.facts)


@contextmanager
def _ends_told(limits: DataFusionLimits) -> Iterator[None]:
    """Translate an exception about the end of a process into `InvalidQuery` or `EngineBroken`."""
    try:
        yield
    except TooLate:
        raise QueryTooSlow(limits.seconds) from None
    except TooMuchMemory:
        raise _too_large(limits) from None
    except ChildGone as gone:
        if gone.signal == signal.SIGXCPU:
            raise QueryTooSlow(limits.cpu_seconds, processor=True) from None
        if gone.signal in (signal.SIGABRT, signal.SIGKILL):
            # A failed allocation ends the process so, and so does a system out of memory.
            raise _too_large(limits) from None
        raise EngineBroken(str(gone)) from None
    except (msgspec.DecodeError, pa.ArrowInvalid) as bad:
        raise EngineBroken(f"its process said what cannot be read: {bad}") from None


def _too_large(limits: DataFusionLimits) -> InvalidQuery:
    return query_too_large(
        f"the query took more than {limits.process_bytes} bytes of memory",
        "ODF_WORKER_DATAFUSION_PROCESS_BYTES",
    )


def _write(answer: _Answer, output: Path, largest: int) -> int:
    count = 0
    with pq.ParquetWriter(output, answer.schema, compression="lz4") as writer:
        for batch in answer.batches():
            writer.write_batch(batch)
            count += batch.num_rows
            if output.stat().st_size > largest:
                raise InvalidQuery(f"the query gives more than {largest} bytes")
    return count
