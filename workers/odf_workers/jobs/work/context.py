"""The context of a worker's jobs, split by concern: functions take only the part they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.stores.ports import ObjectStore

from ...engines.port.port import QUERY_SECONDS, Engine
from ...engines.port.query_size import QuerySize
from ...engines.spark.session import Spark
from ...fetch.files_taken import FilesMemory
from ...fetch.values import FetchRules
from ...runtime.input_limits import PrepareLimits
from ...runtime.progress import JobProgress
from ...slices.costs import Cut
from ...slices.frame import Limits
from .ahead import StatesAhead
from .stages_ran import OnStages, unreported
from .transform_options import TransformOptions


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
    cut: Cut = field(default_factory=Cut)
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
