"""Merge states that take up a large commit beside the worker's next jobs, ahead of the next post.

Without this, the next post takes up the commit before it can be merged. That post waits for a state
that is not ready yet, and takes up whatever was not done.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from odf_node.protocol.chain.state import ChainState
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.merge_state.store import MergeStates

from ...merge.table import reads_history
from ...plan.ingest import IngestPlan
from ...runtime.log import LOGGER, line
from ...slices.write import Written
from .history import bring_up_to_date

AHEAD_BYTES = 1 << 20
"""Bytes of new slices from which a state takes them up ahead; smaller ones take little time."""


class StatesAhead:
    """The thread that does this for the states of one worker."""

    def __init__(self, states: MergeStates, scratch: Path) -> None:
        """`scratch` is a folder for copies of slices."""
        self._states, self._scratch = states, scratch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="merge-states")

    def follow(
        self, dataset: Dataset, plan: IngestPlan, state: ChainState, slices: Sequence[Written]
    ) -> None:
        """Let the state of the plan's strategy take up slices that were committed; `state` is that
        of the chain after the commit."""
        size = sum(each.data.size for each in slices if each.data is not None)
        if size < AHEAD_BYTES or not reads_history(plan.merge) or state.head is None:
            return
        after = replace(plan, head=state.head, schema=state.data_schema, has_history=True)
        self._pool.submit(self._take_up, dataset, after)

    def _take_up(self, dataset: Dataset, plan: IngestPlan) -> None:
        try:
            if dataset.head() != plan.head:  # a later commit has its own turn
                return
            with tempfile.TemporaryDirectory(prefix="ahead-", dir=self._scratch) as folder:
                bring_up_to_date(dataset, plan, self._states, Path(folder))
        except Exception as error:  # the next post does it, or reports the reason
            LOGGER.warning(line("merge state stays behind", dataset=dataset.id, reason=error))

    def wait(self) -> None:
        """Wait until the states have taken up all commits."""
        self._pool.submit(lambda: None).result()

    def close(self) -> None:
        """Finish the state that is being changed, and no others."""
        self._pool.shutdown(cancel_futures=True)
