"""Questions to a blocking function, asked together: who comes while it is busy shares a call.

A thread for each question, and often a transaction, costs more than the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Q = TypeVar("Q")
A = TypeVar("A")
AT_ONCE = 2
"""Calls that run side by side: one that takes long holds up half of the others."""
MOST = 64
"""Questions of a call."""


class Coalescer(Generic[Q, A]):
    """For coroutines of one event loop. `answer_all` gives each its answer or its error."""

    def __init__(
        self,
        answer_all: Callable[[Sequence[Q]], Sequence[A | Exception]],
        *,
        at_once: int = AT_ONCE,
        most: int = MOST,
    ) -> None:
        self._answer_all, self._at_once, self._most = answer_all, at_once, most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._busy = 0
        self._calls: set[asyncio.Task[None]] = set()
        """Kept from being collected while they run."""

    async def ask(self, question: Q) -> A:
        """The answer, found after it was asked for. Raises what the function gives or raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, answer))
        if self._busy < self._at_once:
            self._busy += 1
            # It begins at the next turn of the loop: who asks in this one is taken along. What it
            # does is for many, and a part of nobody's trace.
            call = loop.create_task(self._work(), context=Context())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return await answer

    async def _work(self) -> None:
        # Between its last look at who waits and its end nobody else has a turn: who asks after
        # that begins a call of their own.
        try:
            await self._answer_waiting()
        finally:
            self._busy -= 1

    async def _answer_waiting(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                found = await run_in_threadpool(self._answer_all, [each for each, _ in asked])
            except Exception as error:
                found = [error] * len(asked)
            for (_, answer), told in zip(asked, found, strict=True):
                if answer.done():  # nobody waits any more
                    continue
                if isinstance(told, Exception):
                    answer.set_exception(told)
                else:
                    answer.set_result(told)
