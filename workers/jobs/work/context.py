"""What the jobs of a worker work with, by concern: a function takes the part that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from odf_node.storage.datasets.merge_state.store import MergeStates
from odf_node.storage.stores.ports import ObjectStore

from ...engines.port.port import QUERY_SECONDS, Engine
from ...engines.port.query_size import QuerySize
from ...engines.spark.session import Spark
from ...fetch.values import FetchRules
from ...runtime.input_limits import PrepareLimits
from ...runtime.progress import JobProgress
from ...slices.costs import Cut
from ...slices.frame import Limits
from .transform_options import TransformOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What queries run on."""

    session: Spark
    """Merges what does not fit into memory, too."""
    first: Engine
    """Spark; the others, if any, preprocess and transform."""
    others: tuple[Engine, ...] = ()

    @property
    def all(self) -> tuple[Engine, ...]:
        return (self.first, *self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How batches are read, merged and written."""

    states: MergeStates
    """What merges need of the histories of datasets."""
    limits: Limits = field(default_factory=Limits)
    max_rejected_rows: int = 1_000
    """Bad rows of a batch that may be set aside."""
    micro_batch_bytes: int = 8 << 20
    """Fewer are read, merged and written in this process, more by Spark; 0: all of them."""
    cut: Cut = field(default_factory=Cut)
    upload_threads: int = 2
    """So many slices are uploaded side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    """How sources are fetched and prepared."""

    fetch: FetchRules = field(default_factory=FetchRules)
    preparation: PrepareLimits = field(default_factory=PrepareLimits)
    max_vanish_percent: int = 50
    """Of the rows of a snapshot, unless the request says so."""
    max_fetches: int = 1_000
    """Of one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """How much queries of readers may take, and what is kept of them."""

    seconds: float = QUERY_SECONDS
    size: QuerySize = field(default_factory=QuerySize)
    result_bytes: int = 1 << 30
    results: int = 20
    """Results of one account that are kept; then the oldest goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """Made once per worker, from its settings; each job is given one with its own progress."""

    engines: Engines
    objects: ObjectStore
    scratch: Path
    ingest: IngestOptions
    polls: PollOptions = field(default_factory=PollOptions)
    transforms: TransformOptions = field(default_factory=TransformOptions)
    queries: QueryOptions = field(default_factory=QueryOptions)
    verify_task_bytes: int = 4 << 30
    """Memory that a task may take to verify objects; 0: all there is."""
    commit_attempts: int = 5
    publish_to: tuple[str, ...] = ()
    """URLs below which datasets may be published as files."""
    job_progress: JobProgress = field(default_factory=JobProgress)
    """Of the job at hand."""
