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
        self,
        key: Hashable,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        slices: int,
        rest_s: float = 0.0,
    ) -> T | None:
        """Return the answer that `make` makes, which reads so many slices; None if they are many
        and it is not made soon. With a rest, that of many slices begins only so much later, when
        the page is there. Raises what `make` raises."""
        is_soon = slices <= MANY_SLICES
        task = self.making.get(key)
        if task is None:
            task = asyncio.create_task(_after(0.0 if is_soon else rest_s, make))
            self.making[key] = task
            task.add_done_callback(lambda done: self._made(key, done))
        await asyncio.wait({task}, timeout=None if is_soon else 0.0 if rest_s else PATIENCE_S)
        return task.result() if task.done() else None

    def _made(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        self.making.pop(key, None)
        if not done.cancelled():
            done.exception()  # it is seen here if nobody waits for it any more


async def _after(seconds: float, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    await asyncio.sleep(seconds)
    return await make()
