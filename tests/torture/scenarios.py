"""What is being done when the process dies: one function a scenario, and what it starts from.

`before` is undisturbed and returns what the child is told; `work` runs in the child until the
chosen step, and says what it acknowledges at once; `after` finishes undisturbed what a user
would try again. All three get opened stores.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

import ingesting
from chain_maker import entry, linked, parquet, seed, slice_of, table
from judge import check_dataset
from upkeep_parts import ROWS, TOMORROW, begun, dataset_of, grown, key_of, next_block

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import HashedBlock, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.ports.values import DatasetEntry, ObjectKind, Succeeded, Visibility

Say = Callable[[str], None]
"""Acknowledges the hash of a block: from then on it must never be lost."""
MANY = 17
"""Blocks of a large commit: more than are synced one by one."""


@dataclass(frozen=True)
class Scenario:
    """See the module."""

    work: Callable[[Stores, str, Say], None]
    before: Callable[[Stores, str], None]
    after: Callable[[Stores, str, Say], None]
    repairs: bool = False
    """What is damaged is whole after `after` only."""
    every: int = 1
    """Of so many steps one is killed at, unless there is time for all of them."""


def dataset_named(stores: Stores, alias: str) -> Dataset:
    return stores.dataset(DatasetRef(alias=DatasetAlias.parse(alias)))


def blocks_of(stores: Stores, alias: str) -> list[HashedBlock]:
    return dataset_named(stores, alias).blocks()


def _entry(stores: Stores, alias: str) -> DatasetEntry:
    return dataset_named(stores, alias).entry


def _nothing(_stores: Stores, _alias: str, *_: object) -> None:
    """Nothing to do."""


def _begun(stores: Stores, alias: str) -> None:
    begun(stores, alias)


def _grown(stores: Stores, alias: str) -> None:
    grown(stores, alias, slices=1)


# --- create, commit -------------------------------------------------------------------------


def create(stores: Stores, alias: str, say: Say) -> None:
    made = entry(alias)
    if stores.registry.find(DatasetRef(id=made.id)) is not None:
        say(str(stores.refs.head(made.id)))
        return
    blocks = [linked(None, seed(made.id))]
    blocks.append(linked(blocks[0], SetInfo(description="two blocks")))
    stores.create_dataset(made, blocks)
    say(str(blocks[-1].hash))


def commit(stores: Stores, alias: str, say: Say) -> None:
    """One more slice, its bytes in pieces, as a push or an ingest commits it."""
    made, blocks = _entry(stores, alias), blocks_of(stores, alias)
    start = ROWS * (len(blocks) - 2)
    rows = table(start, ROWS, value=f"{start}-")
    content = parquet(rows)
    part = slice_of(content, rows, start)
    pieces = (content[at : at + 500] for at in range(0, len(content), 500))
    stores.objects.put(key_of(made, ObjectKind.DATA, part.physical_hash), pieces)
    block = next_block(blocks, part)
    dataset_of(stores, made).commit([block], expected=blocks[-1].hash)
    say(str(block.hash))


def commit_many(stores: Stores, alias: str, say: Say) -> None:
    blocks = blocks_of(stores, alias)
    more = list(_infos(blocks[-1], MANY))
    dataset_named(stores, alias).commit(more, expected=blocks[-1].hash)
    say(str(more[-1].hash))


def force(stores: Stores, alias: str, say: Say) -> None:
    """Another chain from the Seed on takes the place of what was."""
    blocks = blocks_of(stores, alias)
    more = [blocks[0], *_infos(blocks[0], 2)]
    dataset_named(stores, alias).commit(more, expected=blocks[-1].hash, force=True)
    say(str(more[-1].hash))


def _infos(prev: HashedBlock, count: int) -> Iterator[HashedBlock]:
    for number in range(count):
        prev = linked(prev, SetInfo(description=f"{number} after {prev.hash}"))
        yield prev


# --- settled uploads, in S3 -----------------------------------------------------------------


def _upload_by_url(stores: Stores, alias: str) -> None:
    """A slice put by presigned URL: nobody has looked at it yet."""
    import httpx

    made, _ = begun(stores, alias)
    content = parquet(table(0, ROWS, value="0-"))
    key = key_of(made, ObjectKind.DATA, Multihash.of(content))
    url = stores.objects.upload_url(key, size=len(content), ttl=timedelta(minutes=5))
    assert url is not None
    assert httpx.put(url.url, content=content, headers=dict(url.headers)).status_code == 200


def commit_uploaded(stores: Stores, alias: str, say: Say) -> None:
    blocks = blocks_of(stores, alias)
    if len(blocks) == 2:
        rows = table(0, ROWS, value="0-")
        block = next_block(blocks, slice_of(parquet(rows), rows, 0))
        dataset_named(stores, alias).commit([block], expected=blocks[-1].hash)
        blocks.append(block)
    say(str(blocks[-1].hash))


# --- upkeep ---------------------------------------------------------------------------------


def _littered(stores: Stores, alias: str) -> None:
    """A dataset with a replaced branch, an orphan of each kind, and a push that never went on.

    Alone in the store: a collection looks at everything.
    """
    for each in stores.registry.page(limit=1000):
        stores.forget_dataset(each.id)
    made, blocks = grown(stores, alias, slices=1)
    fork = [blocks[0], linked(blocks[0], SetInfo(description="instead"))]
    dataset_of(stores, made).commit(fork, expected=blocks[-1].hash, force=True)
    for kind in ObjectKind:
        content = secrets.token_bytes(9)
        stores.objects.put(key_of(made, kind, Multihash.of(content)), [content])
    first = entry(f"{alias}-first")
    stores.create_dataset(first, [linked(None, seed(first.id))], pushed=True, unfinished=True)


def collect(stores: Stores, alias: str, say: Say) -> None:
    say(str(blocks_of(stores, alias)[-1].hash))
    collect_garbage(stores, clock=TOMORROW)


def forget(stores: Stores, alias: str, _say: Say) -> None:
    stores.forget_dataset(_entry(stores, alias).id)


def _forget_again(stores: Stores, alias: str, _say: Say) -> None:
    """Whoever tries again may be told that it is gone; what it left is cleared away."""
    try:
        stores.forget_dataset(entry(alias).id)
    except NodeError as gone:
        assert type(gone).__name__ == "DatasetNotFound"  # noqa: PT017


def describe(stores: Stores, alias: str, say: Say) -> None:
    """Rename and publish: the index and the notes beside the objects."""
    made = _entry(stores, alias)
    say(str(blocks_of(stores, alias)[-1].hash))
    stores.rename_dataset(made.id, DatasetAlias.parse(f"{alias}-renamed"))
    stores.set_visibility(made.id, Visibility.PUBLIC)


def _damaged(stores: Stores, alias: str) -> None:
    made, blocks = grown(stores, alias, slices=1)
    stores.objects.delete(key_of(made, ObjectKind.BLOCK, blocks[1].hash))
    stores.objects.write_ref(made.id, "head", blocks[0].hash)


def repair(stores: Stores, alias: str, say: Say) -> None:
    made = _entry(stores, alias)
    say(str(stores.refs.head(made.id)))
    options = FsckOptions(repair=True, quarantine=True)
    check_stores(stores, options, only=[made])


# --- ingest ---------------------------------------------------------------------------------


def _batches_waiting(stores: Stores, alias: str) -> None:
    ingesting.begin(stores, entry(alias))


def ingest(stores: Stores, alias: str, say: Say) -> None:
    ingesting.work(stores)
    for job in stores.jobs.page(dataset=entry(alias).id):
        if isinstance(job.outcome, Succeeded):
            say(str(job.outcome.result["head"]))


def _ingest_again(stores: Stores, alias: str, say: Say) -> None:
    """All rows are there, once: the judge looks for doubles."""
    wanted = ingesting.finish(stores, entry(alias))
    assert dataset_named(stores, alias).state().num_records == wanted
    say(str(dataset_named(stores, alias).head()))


def _posts_waiting(stores: Stores, alias: str) -> None:
    ingesting.begin_several(stores, [entry(alias), entry(_twin(alias))])


def ingest_several(stores: Stores, alias: str, say: Say) -> None:
    ingesting.work(stores)
    say(str(dataset_named(stores, alias).head()))


def _ingest_several_again(stores: Stores, alias: str, say: Say) -> None:
    stores.republish(_entry(stores, _twin(alias)))
    for each in (alias, _twin(alias)):
        ingesting.finish(stores, entry(each))
        state = dataset_named(stores, each).state()
        assert state.num_records == ingesting.BATCHES + 1, f"{each}: {state.num_records}"
        check_dataset(stores, each, ())
    say(str(dataset_named(stores, alias).head()))


def _twin(alias: str) -> str:
    return f"{alias}-twin"


SCENARIOS: Mapping[str, Scenario] = {
    "create": Scenario(create, _nothing, create),
    "commit": Scenario(commit, _begun, commit),
    "commit many blocks": Scenario(commit_many, _begun, commit_many),
    "force": Scenario(force, _grown, force),
    "collect garbage": Scenario(collect, _littered, collect),
    "forget": Scenario(forget, _grown, _forget_again),
    "rename and publish": Scenario(describe, _grown, _nothing),
    "ingest": Scenario(ingest, _batches_waiting, _ingest_again),
    "ingest into several": Scenario(
        ingest_several, _posts_waiting, _ingest_several_again, every=23
    ),
    "repair": Scenario(repair, _damaged, repair, repairs=True),
}
IN_A_BUCKET: Mapping[str, Scenario] = {
    "commit what was put by URL": Scenario(commit_uploaded, _upload_by_url, commit_uploaded),
}
