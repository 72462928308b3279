"""Coalescing of questions to a blocking function: questions that arrive while it is busy share the
next call.

A thread for each question, and often a transaction, would cost more than the answer.
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
"""Number of concurrent calls. With two, one slow call does not block all others."""
MOST = 64
"""Limit of questions in one call."""


class Coalescer(Generic[Q, A]):
    """Collects questions of coroutines of one event loop. `answer_all` returns the answer or the
    error for each question."""

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
        """Running tasks. The reference protects them from garbage collection."""

    async def ask(self, question: Q) -> A:
        """Return the answer, computed after this call began. Raises the errors that `answer_all`
        returns or raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, answer))
        if self._busy < self._at_once:
            self._busy += 1
            # The task starts in the next iteration of the event loop, so it includes questions
            # asked in this one. It works for many requests, so it belongs to no single trace.
            call = loop.create_task(self._work(), context=Context())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return await answer

    async def _work(self) -> None:
        # No other coroutine runs between the last check of `_waiting` and the decrement, so a
        # later question starts a new task.
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
                if answer.done():  # the caller was cancelled
                    continue
                if isinstance(told, Exception):
                    answer.set_exception(told)
                else:
                    answer.set_result(told)
