"""The guard of snapshots: limits how much of the state may be absent from a batch."""

from __future__ import annotations

from collections.abc import Sequence

from odf_protocol.errors import BadInput
from odf_protocol.metadata.reading import MergeStrategySnapshot

from ...plan.ingest import IngestPlan
from ...slices.columns import Operation
from ...slices.write import Written, operations

FEW_ROWS = 10
"""This number of rows of a snapshot may vanish, regardless of their share."""


class RowsVanished(BadInput):
    """A snapshot would retract more rows than its guard allows; it was probably cut short."""


def check_vanished(
    plan: IngestPlan, rows: int, slices: Sequence[Written], max_percent: int
) -> None:
    """Check how much of the state is absent from a snapshot.

    A few rows may vanish unless `max_percent` is 0; an empty batch is accepted only if it is 100.

    Raises:
        RowsVanished: more than `max_percent` of the rows of the previous state vanished.
    """
    done = operations(slices)
    vanished = done[Operation.RETRACT]
    if not isinstance(plan.merge, MergeStrategySnapshot) or vanished == 0 or max_percent >= 100:
        return
    stood = rows - done[Operation.APPEND] + vanished
    few = vanished <= FEW_ROWS and max_percent > 0
    if rows == 0 or (not few and vanished * 100 > max_percent * stood):
        raise RowsVanished(
            f"{vanished} of {stood} rows are gone from the snapshot, and at most {max_percent} "
            "percent may go at once: look whether it was cut short, or allow more "
            "(maxVanishPercent)",
            vanished=vanished,
            stood=stood,
            max_vanish_percent=max_percent,
        )
