"""Chains that each break one rule, so that a node must refuse them in a push.

Every line names a valid dataset, and appends one or two invalid blocks to it.
Source: transfer protocol, commit validation.

Pushes with scripted messages, for checks of how a node handles wrong pushes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt64, DataTypeOption
from odf_protocol.metadata.sources import FetchStepEthereumLogs, MergeStrategyAppend, ReadStepNdJson
from odf_protocol.multihash import Multihash

from .archive import batch, push_request
from .chains import (
    MINUTE_NS,
    POLLING,
    SCHEMA,
    START,
    Block,
    Chain,
    described,
    rows,
    seeded,
    ten_records,
)
from .http import PeerDisconnected
from .mimic import Mimic
from .node import Deviation, NodeUnderTest, PublishedChain, expect, expect_true
from .websocket import COMPLETE, UNREADABLE, Closed, Exchange, GaveUp

FIRST, SECOND = (key_pair(bytes([number]) * 32).dataset_id for number in (1, 2))
SOME_HASH = Multihash.of(b"some block")
OTHER_HASH = Multihash.of(b"another block")


# --- valid datasets, to which broken blocks are appended


def root() -> Chain:
    return ten_records()


def push_root() -> Chain:
    return seeded().add(push_source())


def derivative() -> Chain:
    dataset = key_pair(os.urandom(32)).dataset_id
    chain = Chain().add(Seed(dataset_id=dataset, dataset_kind=DatasetKind.Derivative))
    return chain.add(transform())


def executed() -> Chain:
    done = ExecuteTransform(
        query_inputs=(consumed(FIRST, new=SOME_HASH, offset=9), consumed(SECOND)),
        new_watermark=START,
    )
    return derivative().add(done)


BASES = {make.__name__: make for make in (seeded, root, push_root, derivative, executed)}


# --- parts


def push_source(**changes: Any) -> AddPushSource:
    fitting = {"source_name": "default", "read": ReadStepNdJson(), "merge": MergeStrategyAppend()}
    return AddPushSource(**{**fitting, **changes})


def sql(*steps: tuple[str | None, str], query: str | None = None) -> TransformSql:
    queries = tuple(SqlQueryStep(alias=alias, query=text) for alias, text in steps) or None
    return TransformSql(engine="datafusion", query=query, queries=queries)


ONE_STEP = sql((None, "select * from a"))


def transform(*inputs: TransformInput, how: TransformSql = ONE_STEP) -> SetTransform:
    given = inputs or (input_of(FIRST, "a"), input_of(SECOND, "b"))
    return SetTransform(inputs=given, transform=how)


def input_of(dataset: DatasetId, alias: str | None) -> TransformInput:
    return TransformInput(dataset_ref=DatasetRef(id=dataset), alias=alias)


def consumed(
    dataset: DatasetId,
    *,
    prev: Multihash | None = None,
    new: Multihash | None = None,
    before: int | None = None,
    offset: int | None = None,
) -> ExecuteTransformInput:
    return ExecuteTransformInput(
        dataset_id=dataset,
        prev_block_hash=prev,
        new_block_hash=new,
        prev_offset=before,
        new_offset=offset,
    )


def more_rows(chain: Chain, *, start: int = 10, end: int = 12, **changes: Any) -> Chain:
    """Return AddData of three rows after ten. `start` and `end` are the offsets that it claims."""
    content, logical = rows(10, 3)
    physical = Multihash.of(content)
    chain.objects["data", str(physical)] = content
    part = DataSlice(
        logical_hash=logical,
        physical_hash=physical,
        offset_interval=OffsetInterval(start=start, end=end),
        size=len(content),
    )
    fitting = {
        "prev_checkpoint": last_checkpoint(chain),
        "prev_offset": 9,
        "new_data": part,
        "new_watermark": START,
    }
    return chain.add(AddData(**{**fitting, **changes}))


def last_checkpoint(chain: Chain) -> Multihash | None:
    events = [block.event for block in chain.blocks if isinstance(block.event, AddData)]
    return events[-1].new_checkpoint.physical_hash if events and events[-1].new_checkpoint else None


def execute(*inputs: ExecuteTransformInput, **changes: Any) -> ExecuteTransform:
    later = Instant(START.ns + MINUTE_NS)
    return ExecuteTransform(**{"query_inputs": inputs, "new_watermark": later, **changes})


def schema_with(*fields: DataField) -> SetDataSchema:
    return SetDataSchema(schema=DataSchema(fields=fields))


def other_type() -> SetDataSchema:
    *fields, last = SCHEMA.fields
    return schema_with(*fields, DataField(name=last.name, type=SCHEMA.fields[4].type))


def now_required() -> SetDataSchema:
    *fields, last = SCHEMA.fields
    return schema_with(*fields, DataField(name=last.name, type=DataTypeInt64()))


def now_optional() -> SetDataSchema:
    first, *fields = SCHEMA.fields
    return schema_with(DataField(name=first.name, type=DataTypeOption(inner=first.type)), *fields)


def new_required() -> SetDataSchema:
    return schema_with(*SCHEMA.fields, DataField(name="added", type=DataTypeInt64()))


def polling(**changes: Any) -> SetPollingSource:
    fitting = {"fetch": POLLING.fetch, "read": POLLING.read, "merge": POLLING.merge}
    return SetPollingSource(**{**fitting, **changes})


Broken = Callable[[Chain], Chain]

VIOLATIONS: tuple[tuple[str, str, Broken], ...] = (
    (
        "a previous block that is not here",
        "root",
        lambda c: c.add(described("x"), prev_block_hash=SOME_HASH),
    ),
    (
        "a previous block that is not the head",
        "root",
        lambda c: c.add(described("x"), prev_block_hash=Multihash.parse(c.blocks[1].hash)),
    ),
    (
        "no previous block",
        "root",
        lambda c: c.add(described("x"), prev_block_hash=None, sequence_number=0),
    ),
    ("a second seed", "root", lambda c: c.add(c.seed)),
    ("a gap in the numbers", "root", lambda c: c.add(described("x"), sequence_number=5)),
    ("a number that repeats", "root", lambda c: c.add(described("x"), sequence_number=3)),
    (
        "a system time before the last",
        "root",
        lambda c: c.add(described("x"), system_time=START),
    ),
    (
        "a watermark that goes back",
        "root",
        lambda c: more_rows(c, new_watermark=Instant(START.ns - MINUTE_NS)),
    ),
    ("a watermark that vanishes", "root", lambda c: more_rows(c, new_watermark=None)),
    (
        "data without anything in it",
        "root",
        lambda c: c.add(AddData(prev_checkpoint=last_checkpoint(c), prev_offset=9)),
    ),
    (
        "data that changes nothing",
        "root",
        lambda c: c.add(
            AddData(
                prev_checkpoint=last_checkpoint(c),
                prev_offset=9,
                new_watermark=START,
                new_checkpoint=c.blocks[-1].event.new_checkpoint,
            )
        ),
    ),
    ("a previous offset that is too low", "root", lambda c: more_rows(c, prev_offset=8)),
    ("a previous offset that is too high", "root", lambda c: more_rows(c, prev_offset=10)),
    ("no previous offset", "root", lambda c: more_rows(c, prev_offset=None)),
    ("a slice that overlaps the last", "root", lambda c: more_rows(c, start=9)),
    ("a slice that leaves a gap", "root", lambda c: more_rows(c, start=11)),
    ("a slice that ends before it starts", "root", lambda c: more_rows(c, end=9)),
    ("no previous checkpoint", "root", lambda c: more_rows(c, prev_checkpoint=None)),
    ("another previous checkpoint", "root", lambda c: more_rows(c, prev_checkpoint=SOME_HASH)),
    (
        "a slice before any schema",
        "seeded",
        lambda c: c.add_rows(3),
    ),
    ("a schema that is the same", "root", lambda c: c.add(SetDataSchema(schema=SCHEMA))),
    (
        "a schema that loses a field",
        "root",
        lambda c: c.add(schema_with(*SCHEMA.fields[:-1])),
    ),
    ("a schema that changes a type", "root", lambda c: c.add(other_type())),
    ("a field that becomes required", "root", lambda c: c.add(now_required())),
    ("a field that becomes optional", "root", lambda c: c.add(now_optional())),
    ("a new field that is required", "root", lambda c: c.add(new_required())),
    ("a push source beside a polling source", "root", lambda c: c.add(push_source())),
    ("a polling source beside a push source", "push_root", lambda c: c.add(POLLING)),
    ("the same push source again", "push_root", lambda c: c.add(push_source())),
    (
        "a read step with two schemas",
        "seeded",
        lambda c: c.add(push_source(read=ReadStepNdJson(ddl_schema=("a INT",), schema=SCHEMA))),
    ),
    (
        "logs of no chain",
        "seeded",
        lambda c: c.add(polling(fetch=FetchStepEthereumLogs(signature="event A()"))),
    ),
    (
        "a preprocess step that is not normalised",
        "seeded",
        lambda c: c.add(push_source(preprocess=sql(query="select 1"))),
    ),
    (
        "a transform that is not normalised",
        "derivative",
        lambda c: c.add(transform(how=sql(query="select 1"))),
    ),
    ("a transform without queries", "derivative", lambda c: c.add(transform(how=sql()))),
    (
        "an intermediate query without alias",
        "derivative",
        lambda c: c.add(transform(how=sql((None, "select 1"), (None, "select 2")))),
    ),
    (
        "a last query with an alias",
        "derivative",
        lambda c: c.add(transform(how=sql(("a", "select 1")))),
    ),
    (
        "an input that comes twice",
        "derivative",
        lambda c: c.add(transform(input_of(FIRST, "a"), input_of(FIRST, "b"))),
    ),
    (
        "an input without alias",
        "derivative",
        lambda c: c.add(transform(input_of(FIRST, None))),
    ),
    (
        "a transform without inputs",
        "derivative",
        lambda c: c.add(SetTransform(inputs=(), transform=ONE_STEP)),
    ),
    (
        "an execution with inputs in another order",
        "derivative",
        lambda c: c.add(execute(consumed(SECOND), consumed(FIRST, new=SOME_HASH))),
    ),
    (
        "an execution that lacks an input",
        "derivative",
        lambda c: c.add(execute(consumed(FIRST, new=SOME_HASH))),
    ),
    (
        "an execution of nothing",
        "derivative",
        lambda c: c.add(execute(consumed(FIRST), consumed(SECOND), new_watermark=None)),
    ),
    (
        "an execution that forgets the blocks it consumed",
        "executed",
        lambda c: c.add(execute(consumed(FIRST, prev=OTHER_HASH, before=9), consumed(SECOND))),
    ),
    (
        "an execution that forgets the offsets it consumed",
        "executed",
        lambda c: c.add(execute(consumed(FIRST, prev=SOME_HASH, before=5), consumed(SECOND))),
    ),
    (
        "an execution that consumes a block again",
        "executed",
        lambda c: c.add(
            execute(consumed(FIRST, prev=SOME_HASH, new=SOME_HASH, before=9), consumed(SECOND))
        ),
    ),
    (
        "offsets that advance without blocks",
        "executed",
        lambda c: c.add(
            execute(consumed(FIRST, prev=SOME_HASH, before=9, offset=12), consumed(SECOND))
        ),
    ),
)


INTERNAL_CLOSE = 1011


def blocks_message(blocks: Sequence[Block], **changes: Any) -> dict[str, Any]:
    """Return the `DatasetPushMetadataRequest` with these blocks."""
    return {"new_blocks": batch([(block.hash, block.raw) for block in blocks], **changes)}


def objects_message(files: Sequence[dict[str, Any]], *, truncated: bool = False) -> dict[str, Any]:
    return {"object_files": list(files), "is_truncated": truncated}


def close_of(
    mimic: Mimic,
    remote: str | None,
    blocks: Sequence[Block],
    chain: Chain,
    *,
    message: dict[str, Any] | None = None,
    upload: bool = True,
    force: bool = False,
) -> Closed:
    """Run a push that must not succeed, and return the Close that ends it at any step.

    Args:
        message: message to send instead of the batch of `blocks`.
        upload: whether to put the objects of `chain` that the node requests.

    Raises:
        Deviation: the node confirms the push, or disconnects without a Close.
    """
    files = [file for block in blocks for file in block.files]
    with mimic.exchange("push") as exchange:
        try:
            _ask(exchange, push_request(blocks, remote, force=force))
            _ask(exchange, message or blocks_message(blocks))
            answer = _ask(exchange, objects_message(files))
            for strategy in answer["Ok"]["object_transfer_strategies"] if upload else ():
                if strategy["push_strategy"] == "HttpUpload":
                    mimic.upload(strategy, chain)
            exchange.say(COMPLETE)
            said = _ask(exchange, {})
        except Closed as closed:
            return closed
        except (PeerDisconnected, GaveUp, *UNREADABLE) as broken:
            raise Deviation(f"the push broke off without a Close: {broken}") from None
    raise Deviation(f"the push was answered with {said}")


def _ask(exchange: Exchange, message: Any) -> Any:
    exchange.say(message)
    return json.loads(exchange.socket.receive())


def expect_refused(
    node: NodeUnderTest, made: PublishedChain, blocks: Sequence[Block], chain: Chain, **more: Any
) -> Closed:
    """Check that a push to `made` ends with Close 1011 and does not move the head."""
    mimic = node.mimic(made.url)
    closed = close_of(mimic, made.chain.head, blocks, chain, **more)
    expect("close code", closed.code, INTERNAL_CLOSE)
    expect_true("the reason is no JSON", _is_json(closed.reason))
    expect("head", mimic.head(), made.chain.head)
    return closed


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
