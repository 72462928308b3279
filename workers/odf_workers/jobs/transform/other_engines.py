"""Executions of another engine: what a repetition by this engine proves, and what it does not.

Rows, intervals and watermark decide. A checkpoint decides nothing: each engine chooses what to
store, if anything. If this engine follows a rule of its own, a different result is no proof either:

- it keeps state where another computes from new rows alone;
- it splits a correction if the query selects only one half of it;
- it uses the last watermark of an input without a new one;
- it refuses the query, or casts a column. `never_runs.py` has the refusals that are proof.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from odf_protocol.errors import Damaged, NodeError, NotFound
from odf_protocol.metadata.events import ExecuteTransform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.stores.ports.values import ObjectKind

from ...engines.iteration.checkpoint import holds_state, is_ours
from ...plan.transform import InputPlan, TransformPlan
from ...slices.schema import IncompatibleSchema
from .files import InputFiles
from .iteration import checkpoint_file
from .result import Made

STATE = "this engine keeps state for the query, another need not"
CHANGES = "the inputs hold changes, which engines pass on in different ways"
WATERMARKS = "an input brought no new watermark, which engines count in different ways"


def proves(reason: NodeError) -> bool:
    """Whether an error proves that no engine can have produced the recorded result."""
    return isinstance(reason, IncompatibleSchema) and "missing" in reason.facts


def readable_checkpoint(dataset: Dataset, plan: TransformPlan, files: InputFiles) -> Path | None:
    """Return the checkpoint from which an execution began, if it exists here and this engine can
    read it."""
    try:
        path = checkpoint_file(dataset, plan, files)
    except (NotFound, Damaged):
        return None
    return path if path is not None and is_ours(path) else None


def with_checkpoint_of(made: ExecuteTransform, recorded: ExecuteTransform) -> ExecuteTransform:
    return replace(made, new_checkpoint=recorded.new_checkpoint)


def undecided(
    differences: tuple[str, ...],
    plan: TransformPlan,
    inputs: list[Dataset],
    files: InputFiles,
    made: Made,
) -> str | None:
    """Return why these differences prove nothing; None if they do, or if there are none."""
    if not differences:
        return None
    if holds_state(made.checkpoint_path):
        return STATE
    if differences == ("new_watermark",):
        return WATERMARKS if any(not item.watermarks for item in plan.inputs) else None
    holds_changes = any(
        _has_changes(dataset, item, files)
        for dataset, item in zip(inputs, plan.inputs, strict=True)
    )
    return CHANGES if holds_changes else None


def _has_changes(dataset: Dataset, item: InputPlan, files: InputFiles) -> bool:
    column = dataset.state(item.as_of).vocab.operation_type_column
    paths = [files.get(dataset, ObjectKind.DATA, part.physical_hash) for part in item.slices]
    return any(_changes_in(path, column) for path in paths)


def _changes_in(path: Path, column: str) -> bool:
    with pq.ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            return False
        for batch in file.iter_batches(columns=[column]):
            if pc.any(pc.not_equal(batch.column(0), pa.scalar(0, batch.column(0).type))).as_py():
                return True
    return False
