"""A dataset as a source for Spark, in batches and streams: `format("odf")`.

    spark.dataSource.register(odf_node.SparkSource)
    spark.read.format("odf").load("https://node.example/weather")

A batch has the current rows, or those of another `projection`; a stream has the rows of the
changelog. Partitions are slices, which Spark's Python workers fetch and hash themselves; the node,
or the reader of a folder, says which of their rows were taken back. The offset of a stream is a
position of the dataset: a checkpoint of Spark records which rows were read, so that each row is in
exactly one batch, even after a stop at any moment.

Convert Spark's filters to filters of a dataset, if both have the same meaning.

Filters on floats are left to Spark, where NaN equals itself, and so are filters on times.

Columns of a dataset in types of Spark.

Spark has no unsigned integers, dates with a time, times in milliseconds or half floats: these
become the next type that can represent all their values.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType, TimeType

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.multihash import Multihash
from odf_storage.datasets.pruning.filters import Filter, parsed_filter
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.scan import check_columns

from ..service.read.read import CHANGELOG, FACTS
from .following import FromChain, FromNode, Position, place_of, require_same_history
from .slices import ListedSlice, listed

_OPERATORS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "eq",
    spark.GreaterThan: "gt",
    spark.GreaterThanOrEqual: "ge",
    spark.LessThan: "lt",
    spark.LessThanOrEqual: "le",
    spark.In: "in",
    spark.IsNull: "null",
    spark.IsNotNull: "notnull",
}
_SAME = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_date32)
"""Types whose values both compare, and write as text, in the same way."""


def pushed(filters: Sequence[spark.Filter], schema: pa.Schema) -> list[Filter]:
    """Return the filters that remove no row that Spark would keep."""
    found = (_filter(each, schema) for each in filters)
    return [each for each in found if each is not None]


def _filter(given: Any, schema: pa.Schema) -> Filter | None:
    word = _OPERATORS.get(type(given))
    if word is None or len(given.attribute) != 1 or given.attribute[0] not in schema.names:
        return None
    column = given.attribute[0]
    if word in ("null", "notnull"):
        return Filter(column, word)
    if not any(is_same(schema.field(column).type) for is_same in _SAME):
        return None
    values = given.value if word == "in" else (given.value,)
    if any(value is None for value in values):
        return None
    return Filter(column, word, tuple(str(value) for value in values))


WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}
DECIMAL_DIGITS = 38
"""Largest number of digits in a decimal of Spark."""


def spark_schema(schema: pa.Schema, names: Sequence[str] | None) -> StructType:
    """Return the Spark schema of all columns, or of these in their order. Raises `UnknownColumn`,
    `UnknownToSpark`."""
    check_columns(names or (), schema)
    chosen = schema.names if names is None else names
    fields = [schema.field(name) for name in chosen]
    wider = [pa.field(each.name, _known(each.name, each.type)) for each in fields]
    found: StructType = from_arrow_schema(pa.schema(wider))
    return found


def to_spark(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Convert the rows to exactly the types that Spark expects; times are cut to microseconds."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type, safe=False)
            for column, field in zip(batch.columns, wanted, strict=True)
        ],
        schema=wanted,
    )


def _known(name: str, given: pa.DataType) -> pa.DataType:
    wider = WIDER.get(given, given)
    if pa.types.is_decimal256(wider):
        if wider.precision > DECIMAL_DIGITS:
            raise _unknown(name, given)
        wider = pa.decimal128(wider.precision, wider.scale)
    try:
        from_arrow_schema(pa.schema([pa.field(name, wider)]))
    except PySparkTypeError as unsupported:
        raise _unknown(name, given) from unsupported
    return wider


def _unknown(name: str, given: pa.DataType) -> BadInput:
    return BadInput(
        "UnknownToSpark",
        f"Spark has no type for column {name[:100]!r}, which is {given}; leave it out by the "
        "option columns='…'",
        column=name[:100],
    )


PARTITION_BYTES = 64 << 20
NOWHERE = 2**62
"""An offset after all others, at which no slice exists."""
TIMES_OF_DAY = (
    "times of day in the columns {}: if Spark says UNSUPPORTED_TIME_TYPE, set "
    "spark.sql.timeType.enabled to true, or leave these out by the option columns"
)
PROJECTIONS = tuple(Projection)
NEXT, BLOCK = "next", "block"
"""Keys in an offset of a stream: the next offset of the dataset, and the block of its
`Position`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `format("odf")`, by their names there."""

    path: str
    token: str | None = None
    at: str | None = None
    columns: str | None = None
    filter: str | None = None
    projection: str | None = None
    startingposition: str = "0"
    maxfilespertrigger: int | None = None
    maxrowspertrigger: int | None = None
    maxpartitionbytes: int = PARTITION_BYTES
    filterpushdown: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Parse the options. Raises `UnusableOption`."""
        words: dict[str, Any] = {name.lower(): value for name, value in given.items()}
        unknown = sorted(words.keys() - set(cls.__slots__))
        if unknown or "path" not in words:
            known = ", ".join(cls.__slots__)
            said = f"no option {unknown[0][:100]!r}" if unknown else "no address: load('https://…')"
            raise BadInput("UnusableOption", f"{said}; known are {known}")
        if words.get("projection", FACTS) not in PROJECTIONS:
            known, said = ", ".join(PROJECTIONS), words["projection"]
            raise BadInput("UnusableOption", f"a projection is one of {known}, not {said[:50]!r}")
        for name in ("maxfilespertrigger", "maxrowspertrigger", "maxpartitionbytes"):
            if name in words:
                words[name] = _count(name, words[name])
        words["filterpushdown"] = str(words.get("filterpushdown", "")).lower() == "true"
        return cls(**words)

    @property
    def filters(self) -> list[Filter]:
        """Filters, one in each line of the option."""
        return [parsed_filter(each) for each in (self.filter or "").splitlines() if each]

    @property
    def block(self) -> Multihash | None:
        if self.at is None:
            return None
        try:
            return Multihash.parse(self.at)
        except NodeError:
            raise BadInput(
                "UnusableOption", f"at is the hash of a block, not {self.at[:100]!r}"
            ) from None

    def listed(self, since: int = 0, at: Multihash | None = None) -> ListedSlice:
        return listed(place_of(self.path, self.token), at or self.block, since=since)


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadInput("UnusableOption", f"{name} is a whole number above 0, not {text[:50]!r}")
    return int(text)


class SparkSource(DataSource):  # type: ignore[misc] # Spark's types are not followed
    """The source to be registered with `spark.dataSource.register`; it takes the options of
    `Options`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._options = Options.of(options)

    @classmethod
    def name(cls) -> str:
        return "odf"

    def schema(self) -> StructType:
        asked = self._options
        names = None if asked.columns is None else asked.columns.split(",")
        found = spark_schema(asked.listed(since=NOWHERE).schema, names)
        times = [each.name for each in found if isinstance(each.dataType, TimeType)]
        if times:  # the process that asks does not know the settings of the session
            warnings.warn(TIMES_OF_DAY.format(", ".join(times)[:200]), stacklevel=1)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = PushingReader if self._options.filterpushdown else SparkReader
        return kind(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        return StreamReader(self._options, schema)


@dataclass
class SparkPart(InputPartition):  # type: ignore[misc]
    """Some slices, and the filters for their rows."""

    slices: ListedSlice
    filters: Sequence[Filter]


class _Reading:
    """Common part of the readers of batches and streams."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._filters = options.filters

    def read(self, partition: SparkPart) -> Iterator[pa.RecordBatch]:
        """Read the rows of a partition. Runs in a Python worker of Spark."""
        with partition.slices.rows(self._schema.names, partition.filters) as batches:
            for batch in batches:
                if batch.num_rows:
                    yield to_spark(batch, self._schema)

    def _parts(self, found: ListedSlice, filters: Sequence[Filter]) -> list[SparkPart]:
        groups = found.pruned(filters).groups(self._options.maxpartitionbytes)
        return [SparkPart(each, tuple(filters)) for each in groups]


class SparkReader(_Reading, DataSourceReader):  # type: ignore[misc]
    """Reads the dataset as of one block."""

    def partitions(self) -> Sequence[InputPartition]:
        found = self._options.listed().shown(self._options.projection or FACTS)
        return self._parts(found, self._filters)


class PushingReader(SparkReader):
    """Accepts Spark's filters too; Spark refuses such a source unless it is configured to allow
    it."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's
        """Leave out rows that cannot pass the filters; Spark still checks all others."""
        self._filters = [*self._filters, *pushed(filters, self._options.listed(NOWHERE).schema)]
        return filters


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads the rows from one position to a later one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.at is not None:
            raise BadInput("UnusableOption", "a stream has no end: leave the option at= out")
        if options.projection not in (None, CHANGELOG):
            raise BadInput(
                "UnusableOption", "a stream has the rows of the changelog: leave projection= out"
            )
        self._last: Multihash | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return _told(Position.of(self._options.startingposition))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        asked = self._options
        if asked.maxrowspertrigger is not None:
            return ReadMaxRows(asked.maxrowspertrigger)
        if asked.maxfilespertrigger is not None:
            return ReadMaxFiles(asked.maxfilespertrigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._last = self._options.listed(NOWHERE).block

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset at which the next batch ends. Raises `HistoryReplaced`."""
        position = Position(start[NEXT], start.get(BLOCK))
        place = place_of(self._options.path, self._options.token)
        source = FromNode(place) if place.is_served else FromChain(place)
        require_same_history(source, position)
        found = self._options.listed(position.offset, self._last)
        end = _end(found, position.offset, limit)
        return start if end <= position.offset else {NEXT: end, BLOCK: str(found.block)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = start[NEXT], end[NEXT]
        found = self._options.listed(first, Multihash.parse(end[BLOCK]))
        offset = found.vocab.offset_column
        between = [Filter(offset, "ge", (str(first),)), Filter(offset, "lt", (str(last),))]
        return self._parts(found, [*between, *self._filters])


def _told(position: Position) -> dict[str, Any]:
    block = {} if position.block is None else {BLOCK: position.block}
    return {NEXT: position.offset, **block}


def _end(found: ListedSlice, start: int, limit: ReadLimit) -> int:
    """Return the offset at which a batch of these slices ends."""
    if isinstance(limit, ReadMaxFiles):
        found = replace(found, slices=found.slices[: limit.max_files])
    end = start if found.end is None else found.end
    return min(end, start + limit.max_rows) if isinstance(limit, ReadMaxRows) else end
