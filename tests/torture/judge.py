"""What must be so after a crash, whatever was being done: nothing acknowledged is lost, no head
points at anything missing or damaged, nothing is there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import pyarrow.parquet as pq
from chain_maker import entry

from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddData, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import check_stores
from odf_storage.datasets.verify.run import DatasetSource, verify_chain
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.objects.layout import HEAD
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind


def check_dataset(stores: Stores, alias: str, said: Collection[str]) -> DatasetEntry | None:
    """Whole, with everything that was acknowledged; or, if nothing was, not there at all."""
    found = stores.registry.find(DatasetRef(id=entry(alias).id))
    if found is None:
        assert not said, f"{alias} is gone"
        return None
    dataset = Dataset(found, stores)
    blocks = dataset.blocks()
    assert set(said) <= {str(block.hash) for block in blocks}, "an acknowledged block is gone"
    report = check_stores(stores, only=[found])
    assert report.ok, report.problems
    verified = verify_chain(DatasetSource(dataset))
    assert verified.ok, verified.problems
    assert stores.objects.read_ref(found.id, HEAD) == dataset.head()
    check_rows(dataset, blocks)
    return found


def check_rows(dataset: Dataset, blocks: Iterable[HashedBlock]) -> None:
    """No row is there twice: every text of these tests is written once."""
    texts: Counter[str] = Counter()
    for block in blocks:
        part = block.event.new_data if isinstance(block.event, AddData) else None
        if part is not None:
            with dataset.open_object(ObjectKind.DATA, part.physical_hash) as stream:
                texts.update(pq.read_table(stream, columns=["text"])["text"].to_pylist())
    twice = {text for text, count in texts.items() if count > 1}
    assert not twice, f"rows are there twice: {sorted(twice)[:5]}"


def check_all(stores: Stores, *, twice_moved: bool = False) -> None:
    """The whole store; and every move of a head was logged once, by the chain it moved along."""
    report = check_stores(stores)
    assert report.ok, report.problems
    heads: dict[tuple[object, str], Multihash | None] = {}
    for move in _moves(stores):
        known = heads.get((move.dataset, move.ref))
        assert move.old is None or move.old == known, "a move is missing in the log"
        begins = move.old is None  # anew, if the dataset was forgotten in between
        assert twice_moved or begins or move.new != known, "a move is logged twice"
        heads[move.dataset, move.ref] = move.new
    for each in stores.registry.page(limit=10_000):
        assert heads[each.id, HEAD] == stores.refs.head(each.id)


def check_nothing_left(stores: Stores) -> None:
    """After a collection of garbage: nothing but what the heads lead to."""
    for each in stores.registry.page(limit=10_000):
        blocks = Dataset(each, stores).blocks()
        named = {ObjectKey(each.id, ObjectKind.BLOCK, block.hash) for block in blocks}
        for block in blocks:
            for one in named_objects(block.event):
                named.add(ObjectKey(each.id, one.kind, one.hash))
        assert {info.key for info in stores.objects.list(each.id)} == named
        assert stores.blocks.count(each.id) == len(blocks)
    known = {each.id for each in stores.registry.page(limit=10_000)}
    for dataset in stores.objects.datasets():
        assert dataset in known or not list(stores.objects.list(dataset))


def _moves(stores: Stores):  # type: ignore[no-untyped-def]
    after = 0
    while page := stores.refs.moves(after=after, limit=1000):
        yield from page
        after = page[-1].number
