"""What the jobs of a worker work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from odf_node.storage.datasets.merge_state.store import MergeStates
from odf_node.storage.stores.ports import ObjectStore

from ...engines.port.port import Engine
from ...engines.spark.session import Spark
from ...fetch.values import FetchRules
from ...runtime.input_limits import PrepareLimits
from ...runtime.progress import JobProgress
from ...slices.frame import Limits
from ...slices.slices import Cut
from .slice_files import SliceLists
from .transform_options import TransformOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Made once per worker, from its settings."""

    session: Spark
    engine: Engine
    """Spark; the others, if any, preprocess and transform."""
    objects: ObjectStore
    scratch: Path
    limits: Limits = field(default_factory=Limits)
    max_rejected_rows: int = 1_000
    """Bad rows of a batch that may be set aside."""
    commit_attempts: int = 5
    partitions: int = 4
    small_rows: int = 200_000
    more_engines: tuple[Engine, ...] = ()
    fetch: FetchRules = field(default_factory=FetchRules)
    preparation: PrepareLimits = field(default_factory=PrepareLimits)
    poll_max_vanish_percent: int = 50
    max_fetches: int = 1_000
    slices: SliceLists = field(default_factory=SliceLists)
    transforms: TransformOptions = field(default_factory=TransformOptions)
    cut: Cut = field(default_factory=Cut)
    states: MergeStates | None = None
    """What merges need of histories; without it they read all slices."""
    job_progress: JobProgress = field(default_factory=JobProgress)
    """Of the job at hand."""
