"""States of long chains outlive the process, and are never more than a memory."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from chain_maker import entry, infos, linked, long_chain

from odf_protocol.chain.rules import fold
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.dataset import state_cache as chain_module
from odf_storage.datasets.dataset.state_cache import KEEP_FROM, NEAR
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.index.sql_blocks import KeptStates, SqlBlockIndex
from odf_storage.stores.sql.engine import writing
from odf_storage.stores.sql.tables import blocks, states

ID = entry().id
BLOCKS = long_chain(ID, KEEP_FROM + 3)


def opened(tmp_path):
    return open_stores(StoreSettings(data=tmp_path, durable=False))


def with_long_chain(tmp_path):
    stores = opened(tmp_path)
    stores.create_dataset(entry(), BLOCKS[:1])
    of(stores).commit(BLOCKS[1:], expected=BLOCKS[0].hash)
    return stores


def of(stores):
    return stores.dataset(DatasetRef(id=ID))


class Folds:
    """Counts the blocks that are folded."""

    def __init__(self, monkeypatch):
        self.count = 0
        monkeypatch.setattr(chain_module, "fold", self.fold)

    def fold(self, blocks, state=None):
        self.count += len(blocks)
        return fold(blocks, state)


def test_after_a_restart_a_long_chain_is_not_folded_again(tmp_path, monkeypatch):
    with_long_chain(tmp_path).close()
    stores, folds = opened(tmp_path), Folds(monkeypatch)
    assert of(stores).state() == fold(BLOCKS)
    assert folds.count == 0
    stores.close()


def test_only_newer_blocks_are_folded_and_older_states_are_right(tmp_path, monkeypatch):
    stores = with_long_chain(tmp_path)
    more = linked(BLOCKS[-1], SetInfo(description="one more"))
    of(stores).commit([more], expected=BLOCKS[-1].hash)
    stores.close()
    stores, folds = opened(tmp_path), Folds(monkeypatch)
    assert of(stores).state() == fold([*BLOCKS, more])
    assert folds.count == 1
    assert of(stores).state(BLOCKS[5].hash) == fold(BLOCKS[:6])
    stores.close()


def test_a_transaction_of_reads_saves_a_state_only_after_it_has_ended(tmp_path):
    stores = with_long_chain(tmp_path)
    with writing(stores.engine) as db:
        db.execute(sa.delete(states))
    stores.close()
    stores = opened(tmp_path)
    with stores.reading() as reader:
        assert reader.chain(ID).state() == fold(BLOCKS)
        assert KeptStates(stores.engine).load(ID) is None
    assert KeptStates(stores.engine).load(ID) == fold(BLOCKS)
    stores.close()


def test_another_branch_is_folded_by_itself(tmp_path):
    stores = with_long_chain(tmp_path)
    branch = [linked(BLOCKS[1], infos("branch")[0])]
    of(stores).commit(branch, expected=BLOCKS[-1].hash, force=True)
    stores.close()
    stores = opened(tmp_path)
    assert of(stores).state() == fold([*BLOCKS[:2], *branch])
    stores.close()


def test_what_cannot_be_read_is_folded(tmp_path):
    stores = with_long_chain(tmp_path)
    with writing(stores.engine) as db:
        db.execute(sa.update(states).values(content=b"of another version"))
    stores.close()
    stores = opened(tmp_path)
    assert of(stores).state() == fold(BLOCKS)
    stores.forget_dataset(ID)
    stores.close()


def test_raw_pages_are_the_blocks_as_they_came(tmp_path):
    stores = with_long_chain(tmp_path)
    dataset = of(stores)
    pages = list(dataset.raw_pages(dataset.path(after=BLOCKS[0].hash)))
    assert [name for page in pages for name in page] == [(b.hash, b.raw) for b in BLOCKS[1:]]
    stores.close()


@pytest.mark.parametrize("newer", [1, 2, NEAR, NEAR + 1, NEAR + 2])
def test_a_reader_of_a_moving_head_asks_for_the_whole_path_only_when_far_behind(
    tmp_path, monkeypatch, newer
):
    stores, reader, first = opened(tmp_path), opened(tmp_path), BLOCKS[:3]
    stores.create_dataset(entry(), first)
    assert of(reader).state() == fold(first)
    more = [first[-1]]
    for number in range(newer):
        more.append(linked(more[-1], SetInfo(description=f"{number} more")))
    of(stores).commit(more[1:], expected=first[-1].hash)
    paths: list[object] = []
    lineage = SqlBlockIndex.lineage
    monkeypatch.setattr(
        SqlBlockIndex, "lineage", lambda *given: paths.append(given) or lineage(*given)
    )
    folds = Folds(monkeypatch)
    assert of(reader).state() == fold([*first, *more[1:]])
    assert folds.count == newer
    assert bool(paths) == (newer > NEAR + 1)
    reader.close()
    stores.close()


def test_a_damaged_block_behind_a_known_state_is_not_read(tmp_path):
    stores, reader, first = opened(tmp_path), opened(tmp_path), BLOCKS[:5]
    stores.create_dataset(entry(), first)
    assert of(reader).state() == fold(first)
    more = [linked(first[-1], SetInfo(description="one more"))]
    more += [linked(more[0], SetInfo(description="two more"))]
    of(stores).commit(more, expected=first[-1].hash)
    with writing(stores.engine) as db:
        db.execute(sa.update(blocks).where(blocks.c.hash == first[2].hash).values(raw=b"damaged"))
    assert of(reader).state() == fold([*first, *more])
    reader.close()
    stores.close()
