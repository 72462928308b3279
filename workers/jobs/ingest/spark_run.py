"""A batch that is too large for memory, merged by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from odf_node.protocol.metadata.reading import MergeStrategyChangelogStream
from odf_node.protocol.source_options import retraction_rule

from ...engines.spark.session import Spark
from ...merge.findings import judged
from ...merge.history import HistoryRange
from ...merge.table import merging_of
from ...plan.ingest import IngestPlan
from .merged import FinalRows
from .spark_merged import MergeRun, merged
from .spark_narrow import Narrowed, narrow
from .spark_retractions import findings_of
from .stage import Staged


def merge_on_spark(
    staged: Staged,
    plan: IngestPlan,
    schema: pa.Schema,
    history: HistoryRange | None,
    session: Spark,
    scratch: Path,
    *,
    partitions: int,
) -> FinalRows:
    """As `merge_here`, by Spark. Raises as that, and `UnsupportedByEngine`."""
    merging = merging_of(plan.merge, plan.vocab)
    warnings: tuple[str, ...] = ()
    left = Narrowed(staged=staged)
    if isinstance(plan.merge, MergeStrategyChangelogStream):
        findings = findings_of(staged, schema, merging, history)
        warnings = judged(findings, retraction_rule(plan.read.schema))
    elif history is not None:
        left = narrow(staged, plan.merge, merging, history.state, scratch)
    run = MergeRun(
        staged=left.staged,
        strategy=plan.merge,
        vocab=plan.vocab,
        source_event_time=plan.source_event_time,
        schema=schema,
        history=() if left.history is None else (left.history,),
        projected=left.projected,
        distinct=left.distinct,
        partitions=partitions,
    )
    return FinalRows(merged(run, session, scratch), warnings)
