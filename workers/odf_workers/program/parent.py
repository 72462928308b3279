"""The parent process of a worker: the worker ends when its parent is gone."""

from __future__ import annotations

import os
import threading

from ..runtime.log import LOGGER, line

PARENT_CHECK_S = 1.0


def watch_parent(parent: int, stop: threading.Event) -> None:
    """Set `stop` once the process `parent` has ended."""

    def watch() -> None:
        while not stop.wait(PARENT_CHECK_S):
            try:
                os.kill(parent, 0)
            except ProcessLookupError:
                LOGGER.warning(line("parent is gone", parent=parent))
                stop.set()
            except PermissionError:
                continue

    threading.Thread(target=watch, name="parent", daemon=True).start()
