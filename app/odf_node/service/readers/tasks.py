"""Tasks of readers as data: the service plans them, a reader runs them.

Both sides import this module, so it imports neither Arrow nor the index.
"""

from __future__ import annotations

from typing import Any

import msgspec

from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.errors import LimitExceeded
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.kartothek.index_place import IndexRef
from odf_storage.datasets.pruning.filters import Filter
from odf_storage.datasets.pruning.learned import Bounds

MAX_ANSWER = "ODF_NODE_MAX_READ_BYTES"


def answer_too_long(limit: int, setting: str | None = None) -> LimitExceeded:
    """The answer exceeds its limit of bytes."""
    return LimitExceeded(
        "AnswerTooLong",
        f"the rows take more than the {limit} bytes of an answer; ask for fewer, or for fewer "
        "columns",
        limit=limit,
        setting=setting,
    )


class SliceRef(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a data slice, and about the block that adds it, that a reader needs."""

    physical_hash: str
    start: int
    end: int
    size: int
    system_time: int = 0

    @classmethod
    def of(cls, data: DataSlice, recorded: Instant | None = None) -> SliceRef:
        interval = data.offset_interval
        time = 0 if recorded is None else recorded.ns
        return cls(str(data.physical_hash), interval.start, interval.end, data.size, time)

    def data(self) -> DataSlice:
        name = Multihash.parse(self.physical_hash)
        interval = OffsetInterval(start=self.start, end=self.end)
        return DataSlice(
            logical_hash=name, physical_hash=name, offset_interval=interval, size=self.size
        )


class TailTask(msgspec.Struct, frozen=True, tag="tail", kw_only=True):
    """Return the `limit` records before the last `skip`, as one JSON value of a shape."""

    slices: list[SliceRef]
    """Oldest first."""
    schema: Any
    """A `DataSchema` as plain data: the columns in which rows are returned."""
    skip: int
    limit: int
    shape: str
    max_bytes: int


class TableRef(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as a table, as of one block, with known bounds of its slices."""

    head: str
    vocab: dict[str, str]
    schema: Any
    slices: list[SliceRef]
    key: tuple[str, ...]
    bounds: dict[str, list[Bounds | None]]
    """Known bounds of the requested columns, in the order of the slices."""
    index: IndexRef | None = None


class ReadTask(msgspec.Struct, frozen=True, tag="read", kw_only=True):
    """Return rows of a table; `request` has the fields of a `ReadRequest`."""

    table: TableRef
    request: dict[str, Any]
    max_bytes: int


class ChangedTask(msgspec.Struct, frozen=True, tag="changed", kw_only=True):
    """Return the numbers of the slices that do more than add rows, 8 bytes each, little endian."""

    slices: list[SliceRef]
    operation: str
    """Name of the column with the operations."""


class LookupTask(msgspec.Struct, frozen=True, tag="lookup", kw_only=True):
    """Return rows with some values, or the live ones of them, as one JSON value of a shape."""

    table: TableRef
    filters: tuple[Filter, ...]
    state: bool
    limit: int
    shape: str
    max_bytes: int


class StepTask(msgspec.Struct, frozen=True, tag="step", kw_only=True):
    """Compute the live rows of a table from those that were live before the offset `first`."""

    table: TableRef
    projection: str
    first: int
    touched: bytes | None = None
    """Offsets of older rows, 8 bytes each, little endian. The answer has the offsets of the rows
    that are live among these and the new rows, in the same encoding. If this is None, the answer
    has the hashes by which new rows are matched."""


class StandingTask(msgspec.Struct, frozen=True, tag="standing", kw_only=True):
    """Return the `limit` current rows before the last `skip`, column by column, after the number
    of all current rows, as one JSON array."""

    table: TableRef
    skip: int
    limit: int
    max_bytes: int


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """Facts of the columns of the first slices of a table."""

    slices: int
    rows: int
    nulls: dict[str, int]
    """Numbers of nulls; columns whose facts are not known are missing."""
    ends: bytes
    """The least and the greatest values as an Arrow stream of two rows."""


class Profiled(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a `ProfileTask`."""

    profile: Profile
    ends: dict[str, list[Any]]
    """The least and the greatest values as JSON values."""
    sample: dict[str, list[Any]]
    """Rows column by column, as JSON values; empty if they are too long."""


class ProfileTask(msgspec.Struct, frozen=True, tag="profile", kw_only=True):
    """Return the facts of columns of all rows, and about `rows` rows spread over the slices."""

    table: TableRef
    columns: tuple[str, ...]
    known: Profile | None
    cells: int
    """Limit of the values that are read for the facts."""
    rows: int
    max_bytes: int


class ColumnsTask(msgspec.Struct, frozen=True, tag="columns", kw_only=True):
    """Find the input columns of each column of a derivative, as JSON; null if its SQL cannot be
    analysed. `queries` are pairs of alias and text, `inputs` the columns of each input."""

    engine: str
    queries: list[tuple[str | None, str]]
    inputs: dict[str, list[str]]


class MarkdownTask(msgspec.Struct, frozen=True, tag="markdown", kw_only=True):
    """Convert Markdown into HTML that is safe in a page, as a JSON text; null if it is too long."""

    text: str


class LookTask(msgspec.Struct, frozen=True, tag="look", kw_only=True):
    """Propose a dataset for an uploaded file. `given` has a person's options by their names; the
    answer is the proposal as `odf_node/proposal/wire.py` writes it."""

    file: str
    """Hash of its content."""
    file_name: str
    given: dict[str, Any]
    name: str | None
    most: int
    """Number of unpacked bytes that are looked at."""


class ReaderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a reader: memory beyond what it has at its start, and time between two frames."""

    memory_bytes: int
    silent_s: float


Task = (
    TailTask
    | ReadTask
    | ChangedTask
    | LookupTask
    | StepTask
    | StandingTask
    | ProfileTask
    | ColumnsTask
    | MarkdownTask
    | LookTask
)
TEXT_S = 10.0
"""Limit in seconds of work on a text."""
MAX_TEXT_BYTES = 16 << 20
"""Limit of an answer about a text."""


class Order(msgspec.Struct, frozen=True):
    """Everything that the service sends to a reader."""

    limits: ReaderLimits
    task: (
        TailTask
        | ReadTask
        | ChangedTask
        | LookupTask
        | StepTask
        | StandingTask
        | ProfileTask
        | ColumnsTask
        | MarkdownTask
        | LookTask
    )


def write_order(order: Order) -> bytes:
    return msgspec.json.encode(order)


def read_order(raw: bytes) -> Order:
    return decode_json(raw, Order)


def schema_data(schema: DataSchema | None) -> Any:
    return None if schema is None else to_data(schema)


def schema_of(data: Any) -> DataSchema | None:
    return None if data is None else from_data(data, DataSchema)
