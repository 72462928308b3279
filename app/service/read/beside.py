"""Answers that are made beside the pages that show them, since these cannot wait for long.

Whoever asks next gets the answer, or waits for the same one: it is made once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

MANY_SLICES = 1000
"""Number of slices up to which a page waits for what they say."""
PATIENCE_S = 0.2
T = TypeVar("T")


@dataclass(frozen=True)
class Beside:
    """Makes answers by key. Use it in the thread of the event loop."""

    making: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)

    async def get(
        self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]], *, slices: int
    ) -> T | None:
        """Return the answer that `make` makes, which reads so many slices; None if they are many
        and it is not made soon. Raises what `make` raises."""
        task = self.making.get(key)
        if task is None:
            task = self.making[key] = asyncio.create_task(make())
            task.add_done_callback(lambda done: self._made(key, done))
        await asyncio.wait({task}, timeout=PATIENCE_S if slices > MANY_SLICES else None)
        return task.result() if task.done() else None

    def _made(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        self.making.pop(key, None)
        if not done.cancelled():
            done.exception()  # it is seen here if nobody waits for it any more
