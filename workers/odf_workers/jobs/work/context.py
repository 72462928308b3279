"""The context of a worker's jobs, split by concern: functions take only the part they need.

Merge states that take up large commits beside the worker's next jobs, ahead of the next post.

Without this, the next post takes up the commit before it can be merged. That post waits for a state
that is being changed, and takes up whatever was not done.

Options of transforms that an administrator sets.

Reports about stages that ran, for the metrics of the worker: once for each run, whatever the
number of posts in it.

Files that the worker has in common with Spark's executors: copies of objects, and new slices.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset import info
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.stores.objects.layout import bucket_name
from odf_storage.stores.ports import Objects, ObjectStore
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ...engines.exchange.worker_side import collect, exchange_of, keep, remember
from ...engines.port.port import QUERY_SECONDS, Engine
from ...engines.port.query_size import QuerySize
from ...engines.spark.session import Spark
from ...fetch.taken import FilesMemory
from ...fetch.values import FetchRules
from ...partitions.port import StageUsage
from ...plan.transform import IterationLimits
from ...runtime.command import LOGGER, PrepareLimits, line
from ...runtime.progress import JobProgress
from ...slices.costs import SliceCut
from ...slices.schema import Limits
from ...slices.write import Written
from .memory import Memory


class StatesAhead:
    """The thread of a worker that does this."""

    def __init__(self, scratch: Path) -> None:
        """`scratch` is a folder for copies of slices."""
        self._scratch = scratch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="merge-states")

    def follow(self, dataset: Dataset, head: Multihash, take_up: Callable[[Path], None]) -> None:
        """Call `take_up` with a folder for copies, unless a later commit moves the head before its
        turn."""
        self._pool.submit(self._take_up, dataset, head, take_up)

    def _take_up(self, dataset: Dataset, head: Multihash, take_up: Callable[[Path], None]) -> None:
        try:
            if dataset.head() != head:  # a state is not taken back
                return
            with tempfile.TemporaryDirectory(prefix="ahead-", dir=self._scratch) as folder:
                take_up(Path(folder))
        except Exception as error:  # the next post does it, or reports the reason
            LOGGER.warning(line("merge state stays behind", dataset=dataset.id, reason=error))

    def close(self) -> None:
        """Finish the state that is being changed, and no others."""
        self._pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformOptions:
    """Settings of all transforms of a worker."""

    limits: IterationLimits = field(default_factory=IterationLimits)
    seconds: float = 30.0
    """Seconds after which a job begins no further iteration; another job continues."""
    reset_on_diverged: bool = False
    """Compute a derivative anew when an input was rewritten, instead of stopping."""
    cache_bytes: int = 8 << 30
    """Bytes of copies of remote slices that are kept for the next iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """The size of a batch: rows that were read, and bytes. A verification counts no rows."""

    rows: int = 0
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesRan:
    """One run of stages: of a batch, of batches that shared a job of Spark, or of a
    verification."""

    usage: StageUsage
    seconds: float
    batches: Sequence[BatchSize]
    """Batches that ran to their end; none if the run failed."""


OnStages = Callable[[StagesRan], None]


def unreported(ran: StagesRan) -> None:
    """Ignore the report."""


@contextmanager
def reported(on_stages: OnStages, used: Callable[[], StageUsage]) -> Iterator[list[BatchSize]]:
    """Report the run of stages in the block when it ends or fails. The block appends the batches
    that ran to their end."""
    began = time.monotonic()
    batches: list[BatchSize] = []
    try:
        yield batches
    finally:
        seconds = time.monotonic() - began
        on_stages(StagesRan(usage=used(), seconds=seconds, batches=batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The engines that run queries."""

    session: Spark
    """Session of Spark, which also merges data that does not fit into memory."""
    first: Engine
    """The Spark engine; the `others`, if any, also preprocess and transform."""
    others: tuple[Engine, ...] = ()

    @property
    def all(self) -> tuple[Engine, ...]:
        return (self.first, *self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Options for reading, merging and writing batches."""

    states: MergeStates
    """Store of the merge states, which hold what merges need of datasets' histories."""
    ahead: StatesAhead | None = None
    """Brings merge states up to date with large commits; None: the next post does it."""
    limits: Limits = field(default_factory=Limits)
    max_rejected_rows: int = 1_000
    """Limit of bad rows in a batch that are set aside instead of failing it."""
    watermark_ahead_s: float | None = None
    """Seconds ahead of the clock up to which event times move the watermark; None: no bound."""
    micro_batch_bytes: int = 8 << 20
    """Inputs smaller than this run in this process, larger ones on Spark; 0: all run on Spark."""
    cut: SliceCut = field(default_factory=SliceCut)
    upload_threads: int = 2
    """Number of slices that are uploaded in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    """Options for fetching and preparing sources."""

    fetch: FetchRules = field(default_factory=FetchRules)
    preparation: PrepareLimits = field(default_factory=PrepareLimits)
    max_vanish_percent: int = 50
    """Percentage of a snapshot's rows that may vanish, unless the request sets another."""
    max_fetches: int = 1_000
    """Limit of fetches in one job."""
    files: FilesMemory = field(default_factory=FilesMemory)
    """Files that polls of folders have taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """Limits of readers' queries, and of their stored results."""

    seconds: float = QUERY_SECONDS
    size: QuerySize = field(default_factory=QuerySize)
    result_bytes: int = 1 << 30
    results: int = 20
    """Number of results stored for one account; a further result replaces the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """Everything that a job needs of its worker. Created once per worker, from its settings; each
    job receives a copy with its own progress."""

    engines: Engines
    objects: ObjectStore
    scratch: Path
    ingest: IngestOptions
    polls: PollOptions = field(default_factory=PollOptions)
    transforms: TransformOptions = field(default_factory=TransformOptions)
    queries: QueryOptions = field(default_factory=QueryOptions)
    verify_task_bytes: int = 4 << 30
    """Bytes of memory that a task may use to verify objects; 0: all available memory."""
    commit_attempts: int = 5
    provenance_rows: int = 5_000_000
    """Limit of rows of the inputs among which the rows of a stateful result are traced."""
    memory: Memory = field(default_factory=Memory)
    publish_to: tuple[str, ...] = ()
    """URL prefixes below which datasets may be published as files."""
    job_progress: JobProgress = field(default_factory=JobProgress)
    """Progress of the current job."""
    on_stages: OnStages = unreported
    """Called for every run of stages of the current job."""

    def finish(self) -> None:
        """Finish what runs beside jobs, since it needs the stores."""
        if self.ingest.ahead is not None:
            self.ingest.ahead.close()


COPY_BYTES = info.COPY_BYTES


def local_file(dataset: Dataset, kind: ObjectKind, content: Multihash, folder: Path) -> Path:
    """Return the path of a local file, like `local_file` of `odf_storage/datasets`. If it is a
    copy, record its object, so that executors on other machines can read that.

    Raises: the same errors.
    """
    return local_object(dataset, ObjectKey(dataset.id, kind, content), folder)


def local_object(dataset: Dataset, key: ObjectKey, folder: Path) -> Path:
    """Do the same as `local_file` for an object of the dataset by its key."""
    path = dataset.whole_object(key, folder / str(key.hash))
    if path.parent == folder:
        remember(path, bucket_name(key), key.hash)
    return path


def remember_copy(dataset: Dataset, kind: ObjectKind, content: Multihash, path: Path) -> None:
    """Record that the file is a copy of the object."""
    remember(path, bucket_name(ObjectKey(dataset.id, kind, content)), content)


def readable(slices: Sequence[Written]) -> Sequence[Written]:
    """Return the slices after fetching those that executors put into the bucket. Raises as
    `collect`."""
    for written in slices:
        if written.stored is not None and not written.path.exists():
            collect(_exchange(), written.stored, written.path)
    return slices


def put_slice(objects: Objects, key: ObjectKey, written: Written) -> None:
    """Put a slice into the store. The bucket itself copies one that an executor put there. Raises
    as `put` and `keep`."""
    if written.stored is None:
        objects.put(key, written.chunks())
    else:
        keep(_exchange(), written.stored, key)


def _exchange() -> str:
    if (url := exchange_of()) is None:
        raise AssertionError("unreachable: without an exchange no slice is in a bucket")
    return url
