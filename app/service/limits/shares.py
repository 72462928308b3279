"""What there is so much of, shared out: a number in sum, and a number for each caller.

A caller is an account, or the address of a request without one (of IPv6 the network, of which one
person has 2^64 addresses). One caller can take its share and no more, so that the others find
something left; two ways to wait for it are `Slots`, which refuse, and `Turns`, which wait.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

from odf_node.protocol.errors import LimitExceeded

from ..auth.actors import Actor

T = TypeVar("T")
IPV6_NETWORK = 64
RETRY_AFTER_S = 5


class ShareTaken(LimitExceeded):
    """One caller has as much of something as one may."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        message = f"{limit} {what} of yours are under way already; try again later"
        super().__init__(message, limit=limit, setting=setting, retry_after_s=RETRY_AFTER_S)


class AllTaken(LimitExceeded):
    """All callers together have as much of something as there is."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        message = f"{limit} {what} are under way on this node already; try again later"
        super().__init__(message, limit=limit, setting=setting, retry_after_s=RETRY_AFTER_S)


def caller_of(scope: MutableMapping[str, Any]) -> str:
    """Whose share a request takes: that of its account, else of its address."""
    actor: Actor | None = scope.get("state", {}).get("actor")
    if actor is not None and actor.account is not None:
        return f"account {actor.account.id}"
    client = scope.get("client")
    return f"address {_network(client[0])}" if client else "address"


def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_NETWORK), strict=False))


class Slots:
    """So many at once of something that lasts: who finds none is told to come again."""

    def __init__(self, what: str, *, most: int, each: int, settings: tuple[str, str]) -> None:
        """`settings` are those of the two numbers."""
        self._what, self._most, self._each, self._settings = what, most, each, settings
        self._held: Counter[str] = Counter()
        self._sum = 0
        self._lock = Lock()

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """One of them, while the block lasts. Raises `ShareTaken`, `AllTaken`."""
        self.take(caller)
        try:
            yield
        finally:
            self.give_back(caller)

    def take(self, caller: str) -> None:
        """One of them, to be given back. Raises `ShareTaken`, `AllTaken`."""
        with self._lock:
            if self._held[caller] >= self._each:
                raise ShareTaken(self._what, self._each, self._settings[1])
            if self._sum >= self._most:
                raise AllTaken(self._what, self._most, self._settings[0])
            self._held[caller] += 1
            self._sum += 1

    def give_back(self, caller: str) -> None:
        with self._lock:
            self._sum -= 1
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]


class Turn:
    """A turn that was taken, to be given back once, by whatever task."""

    def __init__(self, turns: Turns, caller: str) -> None:
        self._turns, self._caller = turns, caller
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.forget(self._caller, self)


class Turns:
    """So many at once of something that ends by itself: who finds none waits for a turn.

    A caller waits for its own share first, so that its queue stands in nobody's way.
    """

    def __init__(
        self, what: str, *, most: int, each: int, settings: tuple[str, str] = ("", "")
    ) -> None:
        """`settings` are those of the two numbers."""
        self._what, self._most, self._each, self._settings = what, most, each, settings
        self._all, self._threads = CapacityLimiter(most), CapacityLimiter(most)
        self._shares: dict[str, CapacityLimiter] = {}
        self._users: Counter[str] = Counter()
        """How many use a share, or wait for it."""

    async def take(self, caller: str, patience_s: float | None = None) -> Turn:
        """A turn, once there is one. Raises `ShareTaken`, `AllTaken` when patience ends first."""
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
                raise AllTaken(self._what, self._most, self._settings[0]) from None
            raise ShareTaken(self._what, self._each, self._settings[1]) from None
        return turn

    async def run(self, caller: str, work: Callable[[], T]) -> T:
        """What the work gives or raises, done by a thread in a turn of the caller."""
        turn = await self.take(caller)
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            turn.give_back()

    def forget(self, caller: str, turn: Turn) -> None:
        """The turn was given back."""
        self._all.release_on_behalf_of(turn)
        self._shares[caller].release_on_behalf_of(turn)
        self._leave(caller)

    def _leave(self, caller: str) -> None:
        self._users[caller] -= 1
        if not self._users[caller]:
            del self._users[caller], self._shares[caller]
