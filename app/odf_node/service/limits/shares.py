"""Limited resources shared among callers: a limit in sum, and a limit for each caller.

A caller is an account, or the client address of a request without one (for IPv6 the /64 network,
because one person has all its 2^64 addresses). The limit for each caller leaves something for the
others. When a limit is reached, `Slots` refuse the caller, and `Turns` make it wait.

Coalescing of questions to a blocking function: questions that arrive while it is busy share the
next call.

A thread for each question, and often a transaction, would cost more than the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from threading import Lock
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool

from odf_protocol.errors import LimitExceeded
from odf_storage.runtime.networks import network_of

from ..auth.actors import Actor

T = TypeVar("T")
RETRY_AFTER_S = 5
SHARE = "ODF_NODE_SHARE"
OUTGOING = 16
"""Requests to servers of users (first looks of mirrors, addresses and pings of webhooks) that wait
at the same time; more are refused with 429."""


class ShareTaken(LimitExceeded):
    """One caller has reached its share."""

    def __init__(self, what: str, limit: int) -> None:
        message = f"{limit} {what} of yours are under way already; try again later"
        super().__init__(message, limit=limit, setting=SHARE, retry_after_s=RETRY_AFTER_S)


class AllTaken(LimitExceeded):
    """All callers together have reached the limit in sum."""

    def __init__(self, what: str, limit: int, setting: str | None) -> None:
        message = f"{limit} {what} are under way on this node already; try again later"
        super().__init__(message, limit=limit, setting=setting, retry_after_s=RETRY_AFTER_S)


def caller_of(scope: MutableMapping[str, Any]) -> str:
    """Return the caller whose share a request uses: its account, else its client address."""
    actor: Actor | None = scope.get("state", {}).get("actor")
    if actor is not None and actor.account is not None:
        return f"account {actor.account.id}"
    client = scope.get("client")
    return f"address {network_of(client[0])}" if client else "address"


class Slots:
    """A limited number of concurrent long-lived uses. When none is free, the caller is refused."""

    def __init__(self, what: str, *, most: int, each: int, setting: str | None) -> None:
        """`most` is the limit in sum, and `setting` the name of its setting, if it has one; `each`
        is the limit for one caller."""
        self._what, self._most, self._each, self._setting = what, most, each, setting
        self._held: Counter[str] = Counter()
        self._sum = 0
        self._lock = Lock()

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Take a slot for the duration of the `with` block. Raises `ShareTaken`, `AllTaken`."""
        self.take(caller)
        try:
            yield
        finally:
            self.give_back(caller)

    def take(self, caller: str) -> None:
        """Take a slot, to be given back by `give_back`. Raises `ShareTaken`, `AllTaken`."""
        with self._lock:
            if self._held[caller] >= self._each:
                raise ShareTaken(self._what, self._each)
            if self._sum >= self._most:
                raise AllTaken(self._what, self._most, self._setting)
            self._held[caller] += 1
            self._sum += 1

    def give_back(self, caller: str) -> None:
        with self._lock:
            self._sum -= 1
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]


class Outgoing:
    """Requests to servers of strangers, during a request to this node: they wait in threads of
    their own, so that slow servers take none from anybody else."""

    def __init__(self, *, most: int, each: int) -> None:
        self._slots = Slots(
            "requests to other servers",
            most=most,
            each=each,
            setting=None,
        )
        self._threads = CapacityLimiter(most)

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """Run the work in a thread. Raises `ShareTaken`, `AllTaken`, and the errors of the work."""
        with self._slots.taken(caller):
            return await to_thread.run_sync(work, limiter=self._threads)


class Turn:
    """A turn that was taken. Any task may give it back; only the first time counts."""

    def __init__(self, turns: Turns, caller: str) -> None:
        self._turns, self._caller = turns, caller
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.forget(self._caller, self)


class Turns:
    """A limited number of concurrent short uses. When none is free, the caller waits for a turn.

    A caller waits for its share first, and then for the limit in sum, so that its waiting requests
    do not delay other callers.
    """

    def __init__(self, what: str, *, most: int, each: int, setting: str | None = None) -> None:
        """`most` is the limit in sum, and `setting` the name of its setting; `each` is the limit
        for one caller."""
        self._what, self._most, self._each, self._setting = what, most, each, setting
        self._all, self._threads = CapacityLimiter(most), CapacityLimiter(most)
        self._shares: dict[str, CapacityLimiter] = {}
        self._users: Counter[str] = Counter()
        """Number of requests of each caller that use its share or wait for it."""

    async def take(self, caller: str, patience_s: float | None = None) -> Turn:
        """Wait for a turn and return it. Raises `ShareTaken`, `AllTaken` when patience ends
        first."""
        share = self._shares.setdefault(caller, CapacityLimiter(self._each))
        self._users[caller] += 1
        turn, has_share = Turn(self, caller), False
        try:
            async with asyncio.timeout(patience_s):
                await share.acquire_on_behalf_of(turn)
                has_share = True
                await self._all.acquire_on_behalf_of(turn)
        except BaseException as error:
            if has_share:
                share.release_on_behalf_of(turn)
            self._leave(caller)
            if not isinstance(error, TimeoutError):
                raise
            if has_share:
                raise AllTaken(self._what, self._most, self._setting) from None
            raise ShareTaken(self._what, self._each) from None
        return turn

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """Run the work in a thread during a turn of the caller. Return its result or raise its
        error."""
        turn = await self.take(caller)
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            turn.give_back()

    def forget(self, caller: str, turn: Turn) -> None:
        """Make the turn available again. `Turn.give_back` calls it."""
        self._all.release_on_behalf_of(turn)
        self._shares[caller].release_on_behalf_of(turn)
        self._leave(caller)

    def _leave(self, caller: str) -> None:
        self._users[caller] -= 1
        if not self._users[caller]:
            del self._users[caller], self._shares[caller]


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
