"""Merge states that take up large commits beside the worker's next jobs, ahead of the next post.

Without this, the next post takes up the commit before it can be merged. That post waits for a state
that is being changed, and takes up whatever was not done.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset

from ...runtime.log import LOGGER, line


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
