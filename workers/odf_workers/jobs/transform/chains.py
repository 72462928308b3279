"""The chains of the inputs in the form that plans use: blocks that were not consumed yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odf_protocol.chain.state import ChainState
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.engine import Watermark
from odf_protocol.metadata.events import SetTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval
from odf_storage.datasets.node.dependencies import InputsNotHere
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound

from ...plan.transform import (
    Consumed,
    Fill,
    InputBlock,
    InputChain,
    IterationLimits,
    consumed_by,
    input_block,
)


def input_datasets(stores: Stores, definition: SetTransform) -> list[tuple[Dataset, str]]:
    """Return the inputs in their order, with their names in the query. Raises `InputsNotHere`."""
    found, missing = list[tuple[Dataset, str]](), list[str]()
    for item in definition.inputs:
        try:
            found.append((stores.dataset(item.dataset_ref), str(item.alias)))
        except DatasetNotFound:
            missing.append(f"{item.alias} ({item.dataset_ref})")
    if missing:
        raise InputsNotHere(missing)
    return found


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
