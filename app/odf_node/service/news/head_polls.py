"""Long polls: a request that knows the head waits until the head changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Receive

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from ..limits.shares import Slots
from .head_watch import HeadWatch

EVENTS_MAX_WAIT_S = 60.0
"""Most seconds a request may wait for another head of a dataset."""


@dataclass(frozen=True)
class HeadPolls:
    """Runs long polls, which share the log reader and the slots of listeners with streams."""

    watch: HeadWatch
    slots: Slots
    most_s: float

    async def other(
        self,
        dataset: DatasetId,
        known: Multihash,
        look: Callable[[], Awaitable[Multihash]],
        *,
        wait_s: float,
        caller: str,
        receive: Receive,
    ) -> Multihash:
        """Wait until the head differs from `known` and return it. Return `known` when the time is
        up, the client has disconnected, or the node ends. `look` checks the rights and reads the
        head.

        Raises:
            ShareTaken, AllTaken, and the errors of `look`.
        """
        until = time.monotonic() + min(wait_s, self.most_s)
        with self.slots.taken(caller), self.watch.listening(dataset) as moved:
            gone = asyncio.create_task(_gone(receive))
            try:
                while True:
                    moved.clear()
                    head = await look()
                    left_s = until - time.monotonic()
                    if head != known or left_s <= 0 or gone.done() or self.watch.is_over:
                        return head
                    waiting = asyncio.create_task(moved.wait())
                    both = (gone, waiting)
                    await asyncio.wait(both, timeout=left_s, return_when="FIRST_COMPLETED")
                    waiting.cancel()
            finally:
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
