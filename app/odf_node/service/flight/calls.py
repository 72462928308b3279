"""A Flight call: its actor, whether its client is still connected, and its share of calls.

The types in which a caller gets columns: those of Arrow, or those that the JDBC driver reads.

Driver 18.3.0 takes unsigned numbers for signed ones, fails at half-precision floats, moves times of
day by the zone of its JVM, shows instants by the clock of the zone of their column without its
offset, and days and instants in lists and structs as numbers since 1970. So Java gets wider
numbers, times of day as texts, instants in UTC, and all days and times in lists and structs as
texts. A caller may ask for all times as texts, which are the same in every zone and in programs
that know no times with a zone, such as the JDBC source of Spark.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from odf_protocol.columns.inner_types import changed_schema
from odf_protocol.errors import BadInput
from odf_storage.runtime.logs import new_trace, part_of

from ..auth.actors import Actor
from ..limits.shares import Slots
from .bridge import Bridge, share_of

if TYPE_CHECKING:
    import grpc


HEADER, TEXT = "times", "text"
"""Properties in the URL of a JDBC connection that the driver does not know become headers."""
_JAVA = "grpc-java"
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


class ReaderTypes(Enum):
    """Which types a caller gets."""

    ARROW = "arrow"
    JAVA = "java"
    TEXTS = "texts"
    """Those of Java, and times as texts."""

    @classmethod
    def of(cls, headers: Sequence[tuple[str, str | bytes]]) -> ReaderTypes:
        """Return the types for a call with these headers. Raises `TimesUnknown`."""
        found = {name.lower(): value for name, value in headers}
        times = found.get(HEADER)
        if times is not None:
            if times != TEXT:
                raise BadInput(
                    "TimesUnknown", f"{HEADER}={str(times)[:50]!r} is none; write {HEADER}={TEXT}"
                )
            return cls.TEXTS
        return cls.JAVA if _JAVA in str(found.get("user-agent")) else cls.ARROW

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns as the caller gets them."""
        if self is ReaderTypes.ARROW:
            return schema
        return changed_schema(schema, self._type)

    def parameters(self, schema: pa.Schema) -> pa.Schema:
        """Return the parameters of a statement as the caller binds them. Java binds all times as
        texts: for a `java.sql.Timestamp` its driver sends the clock of the zone of its JVM, and the
        number of its milliseconds whatever the unit is."""
        return schema if self is ReaderTypes.ARROW else ReaderTypes.TEXTS.schema(schema)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as the caller gets them."""
        schema = self.schema(batch.schema)
        if schema is batch.schema:
            return batch
        return batch.cast(changed_schema(batch.schema, _in_utc)).cast(schema)

    def _type(self, kind: pa.DataType, is_inside: bool) -> pa.DataType:
        is_instant = pa.types.is_timestamp(kind)
        is_text = pa.types.is_time(kind) or (is_instant and self is ReaderTypes.TEXTS)
        if is_text or (is_inside and (is_instant or pa.types.is_date(kind))):
            return pa.utf8()
        return _WIDER.get(kind, _in_utc(kind, is_inside))


def _in_utc(kind: pa.DataType, _is_inside: bool = False) -> pa.DataType:
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return pa.timestamp(kind.unit, "UTC") if is_zoned else kind


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
