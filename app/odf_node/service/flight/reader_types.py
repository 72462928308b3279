"""The types in which a caller gets columns: those of Arrow, or those that the JDBC driver reads.

Driver 18.3.0 takes unsigned numbers for signed ones, fails at half-precision floats, and moves
times of day by the zone of its JVM, so Java gets wider numbers, and times of day as texts. A caller
may ask for all times as texts, which are the same in every zone and in programs that know no times
with a zone, such as the JDBC source of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import pyarrow as pa

from odf_protocol.errors import BadInput

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
_LISTS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, pa.Field], pa.DataType]]]
_LISTS = [
    (pa.types.is_list, lambda _, inner: pa.list_(inner)),
    (pa.types.is_large_list, lambda _, inner: pa.large_list(inner)),
    (pa.types.is_fixed_size_list, lambda outer, inner: pa.list_(inner, outer.list_size)),
]


class TimesUnknown(BadInput):
    """A caller asks for times in a form that is none."""


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
                raise TimesUnknown(f"{HEADER}={str(times)[:50]!r} is none; write {HEADER}={TEXT}")
            return cls.TEXTS
        return cls.JAVA if _JAVA in str(found.get("user-agent")) else cls.ARROW

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns as the caller gets them."""
        if self is ReaderTypes.ARROW:
            return schema
        return pa.schema([self._field(each) for each in schema], schema.metadata)

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as the caller gets them."""
        schema = self.schema(batch.schema)
        return batch if schema is batch.schema else batch.cast(schema)

    def _field(self, field: pa.Field) -> pa.Field:
        return field.with_type(self._type(field.type))

    def _type(self, kind: pa.DataType) -> pa.DataType:
        if pa.types.is_time(kind) or (self is ReaderTypes.TEXTS and pa.types.is_timestamp(kind)):
            return pa.utf8()
        if pa.types.is_struct(kind):
            return pa.struct([self._field(each) for each in kind])
        if pa.types.is_map(kind):
            return pa.map_(self._field(kind.key_field), self._field(kind.item_field))
        for is_one, made in _LISTS:
            if is_one(kind):
                return made(kind, self._field(kind.value_field))
        return _WIDER.get(kind, kind)
