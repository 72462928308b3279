"""The chains of the inputs in the form that plans use: blocks that were not consumed yet.

The engine of a transform: noted for every execution, and preferred for its replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import NodeError
from odf_protocol.metadata.events import (
    AddData,
    ExecuteTransform,
    HashedBlock,
    SetTransform,
    Transform,
    Watermark,
)
from odf_protocol.metadata.sources import MergeStrategyAppend, MergeStrategyLedger
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_storage.datasets.dataset.engines import EngineNote, EngineRun, read_note, write_note
from odf_storage.datasets.node.rights import inputs_not_here
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.pruning.footers import stated_bounds
from odf_storage.datasets.pruning.learned import LearnedBounds
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import ObjectKind

from ...engines.port.port import Engine, engine_for
from ...plan.transform import (
    Consumed,
    Fill,
    InputBlock,
    InputChain,
    IterationLimits,
    consumed_by,
    input_block,
)
from ...slices.schema import Operation


def input_datasets(stores: Stores, definition: SetTransform) -> list[tuple[Dataset, str]]:
    """Return the inputs in their order, with their names in the query. Raises `InputsNotHere`."""
    found, missing = list[tuple[Dataset, str]](), list[str]()
    for item in definition.inputs:
        try:
            found.append((stores.dataset(item.dataset_ref), str(item.alias)))
        except DatasetNotFound:
            missing.append(f"{item.alias} ({item.dataset_ref})")
    if missing:
        raise inputs_not_here(missing)
    return found


LOOKED_AT = 64
"""The newest blocks of an input whose slices say whether it has retractions or corrections."""
_ONLY_ADD = (MergeStrategyAppend, MergeStrategyLedger)


def may_change(dataset: Dataset, state: ChainState) -> bool:
    """Whether rows of an input are taken back, now or later: its sources merge so, or the footers
    of its newest slices state other operations than appends. No row is read.

    A footer may lie, and a derivative may pass on what its inputs do not have yet: this serves
    hints.
    """
    polled = () if state.polling_source is None else (state.polling_source,)
    merges = [source.merge for source in (*polled, *state.push_sources.values())]
    if any(not isinstance(each, _ONLY_ADD) for each in merges):
        return True
    if state.last_offset is None:
        return False
    newest = dataset.along(dataset.path(upto=state.head)[:LOOKED_AT])
    events = [block.event for page in newest for block in page]
    column = state.vocab.operation_type_column
    openers = {
        str(name): partial(dataset.open_object, ObjectKind.DATA, name)
        for name in (
            event.new_data.physical_hash
            for event in events
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None
        )
    }
    found = stated_bounds(LearnedBounds(LOOKED_AT), [column], openers)[column]
    tops = [None if bounds is None else bounds.greatest for bounds in found]
    return any(isinstance(top, int) and top > int(Operation.APPEND) for top in tops)


def input_chains(
    inputs: Sequence[tuple[Dataset, str]], target: ChainState, limits: IterationLimits
) -> list[InputChain]:
    """Return the blocks of each input that the target has not consumed yet, as far as limits
    allow."""
    consumed = consumed_by(target)
    return [
        _input_chain(dataset, alias, consumed.get(dataset.id, Consumed()), limits)
        for dataset, alias in inputs
    ]


def _input_chain(
    dataset: Dataset, alias: str, before: Consumed, limits: IterationLimits
) -> InputChain:
    head = dataset.head()
    state = dataset.state(head)
    blocks, diverged = list[InputBlock](), False
    fill, complete = Fill(limits), True
    try:
        for page in dataset.pages(after=before.block, upto=head):
            found = [input_block(block) for block in page]
            blocks += found
            complete = all(block.data is None or fill.takes(block.data) for block in found)
            if not complete:  # one iteration reads nothing after these
                break
    except InvalidInterval:
        diverged = True
    last = None if diverged else last_data(dataset, before.block)
    return InputChain(
        id=dataset.id,
        alias=alias,
        head=head,
        has_schema=state.schema is not None,
        had_schema=not diverged and _had_schema(dataset, before),
        blocks=blocks,
        watermark=watermark_of(last),
        last_offset=None if last is None else last.last_offset,
        diverged=diverged,
        complete=complete,
    )


def _had_schema(dataset: Dataset, before: Consumed) -> bool:
    """Return whether the input has a schema as of the consumed block; rows imply one."""
    if before.block is None or before.offset is not None:
        return before.block is not None
    return dataset.state(before.block).schema is not None


def last_data(dataset: Dataset, upto: Multihash | None) -> InputBlock | None:
    """Return the newest data block up to `upto`; every data block of a chain repeats the current
    offset and watermark."""
    found = (input_block(block) for block in backwards(dataset, upto))
    return next((block for block in found if block.adds_data), None)


def watermark_of(last: InputBlock | None) -> Watermark | None:
    """Return the watermark of a data block, if it has one."""
    if last is None or last.watermark is None:
        return None
    return Watermark(system_time=last.system_time, event_time=last.watermark)


def backwards(dataset: Dataset, start: Multihash | None) -> Iterator[HashedBlock]:
    """Yield a block and its ancestors, newest first."""
    while start is not None:
        block = dataset.block(start)
        yield block
        start = block.prev


@contextmanager
def noted_as_computed(
    stores: Stores, dataset: Dataset, engine: Engine, block: HashedBlock
) -> Iterator[None]:
    """Note the engine of a block before the block is committed, so that every executed block has a
    note.

    If the commit fails, the note is restored, because a received block may have that number. A
    note that was changed meanwhile belongs to the writer of that block, and stays.
    """
    run = EngineRun(block.sequence_number, engine.name, engine.version)
    with stores.locks.hold(dataset.id):
        known = read_note(stores.objects, dataset.id)
        note = known.with_run(run)
        if note != known:
            write_note(stores.objects, dataset.id, note)
    try:
        yield
    except NodeError:
        with stores.locks.hold(dataset.id):
            if note != known and read_note(stores.objects, dataset.id) == note:
                write_note(stores.objects, dataset.id, known)
        raise


def engine_of(
    transform: Transform,
    engines: Sequence[Engine],
    recorded: EngineRun | None,
    note: EngineNote = EngineNote(),
) -> Engine:
    """Return the engine for a replay: the recorded version if this node has it, or a version that
    replaces it.

    Raises:
        UnsupportedEngine: this node has no version of the engine.
    """
    newest = engine_for(transform, engines)
    if is_trusted(note, recorded, newest):
        return newest
    for engine in engines:  # a remote engine is asked for its version, so only if its name fits
        if recorded and engine.name == recorded.engine and engine.version == recorded.version:
            return engine
    return newest


def is_trusted(note: EngineNote, recorded: EngineRun | None, engine: Engine) -> bool:
    """Whether results of the engine can replace those of the recorded one."""
    if recorded is None or (recorded.engine, recorded.version) == (engine.name, engine.version):
        return True
    return any(
        (one.engine, one.old, one.new) == (engine.name, recorded.version, engine.version)
        for one in note.compatible
    )
