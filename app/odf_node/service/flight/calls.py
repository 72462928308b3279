"""A Flight call: its actor, whether its client is still connected, and its share of calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from odf_storage.runtime.context import new_trace, part_of

from ..auth.actors import Actor
from ..limits.shares import Slots
from .bridge import Bridge
from .callers import share_of
from .reader_types import ReaderTypes

if TYPE_CHECKING:
    import grpc

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A call, for the thread that serves it."""

    actor: Actor
    share: str
    bridge: Bridge
    slots: Slots
    has_left: Callable[[], bool]
    cancel: Callable[[], object]
    trace: str
    types: ReaderTypes = ReaderTypes.ARROW

    def result(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run the work in the event loop, in the trace of the call. Raises the same errors as
        `Bridge.result`."""
        name = self.actor.account.name if self.actor.account else None
        with part_of(self.trace, actor=name):
            return self.bridge.result(work, self.has_left)

    async def end(self) -> None:
        """End the call of a client that takes nothing, and so its thread and its slot."""
        self.cancel()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Take a slot of the caller's share for the duration of the `with` block. Raises
        `ShareTaken`, `AllTaken`."""
        with self.slots.taken(self.share):
            yield


def headers_of(context: grpc.ServicerContext) -> Sequence[tuple[str, str | bytes]]:
    return [(each.key, each.value) for each in context.invocation_metadata()]


def call_of(context: grpc.ServicerContext, actor: Actor, bridge: Bridge, slots: Slots) -> Call:
    """Raises `TimesUnknown`."""
    share, types = share_of(actor, context.peer()), ReaderTypes.of(headers_of(context))
    return Call(
        actor,
        share,
        bridge,
        slots,
        has_left=lambda: not context.is_active(),
        cancel=context.cancel,
        trace=new_trace(),
        types=types,
    )
