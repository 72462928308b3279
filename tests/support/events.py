"""Made-up events for chains without files, and shorthands to append them.

state = chain(ROOT, COLUMNS, add_data(0, 9))     the state after three blocks
state = then(state, add_data(10, 19))            … and one more
"""

from __future__ import annotations

from typing import Any

from odf_protocol.chain.rules import append
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.blocks import encode_block
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    HashedBlock,
    MetadataBlock,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SourceState,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odf_protocol.metadata.sources import (
    FetchStepUrl,
    MergeStrategyAppend,
    ReadStepCsv,
    ReadStepNdJson,
)
from odf_protocol.multihash import Multihash

TIME = Instant.parse("2024-03-14T15:09:26Z")
ROOT = Seed(dataset_id=DatasetId(bytes([1] * 32)), dataset_kind=DatasetKind.Root)
DERIVATIVE = Seed(dataset_id=DatasetId(bytes([2] * 32)), dataset_kind=DatasetKind.Derivative)
INPUT, OTHER_INPUT = DatasetId(bytes([3] * 32)), DatasetId(bytes([4] * 32))


def day(number: int) -> Instant:
    """Midnight of a day of January 2024."""
    return Instant.parse(f"2024-01-{number:02}T00:00:00Z")


def made_up(name: str) -> Multihash:
    """A hash of nothing in particular."""
    return Multihash.of(name.encode())


def optional(type_: DataType) -> DataTypeOption:
    return DataTypeOption(inner=type_)


def schema(**columns: DataType) -> DataSchema:
    return DataSchema(fields=tuple(DataField(name=n, type=t) for n, t in columns.items()))


SYSTEM_COLUMNS: dict[str, DataType] = {
    "offset": DataTypeInt64(),
    "op": DataTypeInt32(),
    "system_time": DataTypeTimestamp(),
    "event_time": DataTypeTimestamp(),
}
COLUMNS = SetDataSchema(schema=schema(**SYSTEM_COLUMNS, city=DataTypeString()))


def data_slice(start: int, end: int) -> DataSlice:
    return DataSlice(
        logical_hash=made_up(f"rows {start}-{end}"),
        physical_hash=made_up(f"file {start}-{end}"),
        offset_interval=OffsetInterval(start=start, end=end),
        size=100,
    )


def checkpoint(name: str) -> Checkpoint:
    return Checkpoint(physical_hash=made_up(name), size=10)


def source_state(value: str) -> SourceState:
    return SourceState(source_name="default", kind="odf/etag", value=value)


def add_data(start: int, end: int, **more: Any) -> AddData:
    """A slice that names the offset before it as previous one."""
    more.setdefault("prev_offset", start - 1 if start else None)
    return AddData(new_data=data_slice(start, end), **more)


def consumed(dataset: DatasetId = INPUT, **more: Any) -> ExecuteTransformInput:
    return ExecuteTransformInput(dataset_id=dataset, **more)


def execution(start: int, end: int, *inputs: ExecuteTransformInput, **more: Any) -> Any:
    more.setdefault("prev_offset", start - 1 if start else None)
    return ExecuteTransform(query_inputs=inputs, new_data=data_slice(start, end), **more)


def sql(*steps: tuple[str | None, str]) -> TransformSql:
    queries = tuple(SqlQueryStep(alias=alias, query=query) for alias, query in steps)
    return TransformSql(engine="spark", queries=queries)


def transform(*inputs: DatasetId, query: str = "select * from a") -> SetTransform:
    named = (
        TransformInput(dataset_ref=DatasetRef(id=one), alias=f"in{number}")
        for number, one in enumerate(inputs)
    )
    return SetTransform(inputs=tuple(named), transform=sql((None, query)))


def push_source(name: str = "default", **more: Any) -> AddPushSource:
    more.setdefault("read", ReadStepNdJson())
    return AddPushSource(source_name=name, merge=MergeStrategyAppend(), **more)


def polling_source(url: str = "https://example.org/a.csv", **more: Any) -> SetPollingSource:
    more.setdefault("fetch", FetchStepUrl(url=url))
    more.setdefault("read", ReadStepCsv())
    return SetPollingSource(merge=MergeStrategyAppend(), **more)


def block_after(state: ChainState, event: Any, **frame: Any) -> HashedBlock:
    """A block that fits behind the state, unless `frame` (fields of the block) says otherwise."""
    number = 0 if state.sequence_number is None else state.sequence_number + 1
    fitting = {
        "system_time": TIME,
        "prev_block_hash": state.head,
        "sequence_number": number,
    }
    return encode_block(MetadataBlock(event=event, **{**fitting, **frame}))


def then(state: ChainState, event: Any, **frame: Any) -> ChainState:
    return append(state, block_after(state, event, **frame))


def chain(*events: Any) -> ChainState:
    state = EMPTY
    for event in events:
        state = then(state, event)
    return state
