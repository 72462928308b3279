"""What datasets take is counted exactly, whatever happens, and quotas refuse what does not fit."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import linked
from msgspec.structs import replace
from refusals import perhaps_refusing, refusing
from upkeep_parts import TOMORROW, begun, dataset_of, grow, grown, key_of, longer, put_slice

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetRef, Name
from odf_protocol.metadata.events import AddData, Attributes, HashedBlock, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import put_blocks
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.datasets.rewrite.compaction import move_head
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.index.sql_sizes import EACH, NODE
from odf_storage.stores.ports.values import Account, AccountId, DatasetEntry, ObjectKind
from odf_storage.stores.sql.engine import reading
from odf_storage.stores.sql.tables import blocks as block_rows
from odf_storage.stores.sql.tables import datasets as dataset_rows


class PowerCut(Exception):
    """Ends a transaction before its commit."""


ANNA = Account(AccountId("did:odf:anna"), "Anna", is_admin=False)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    stores.accounts.put_account(ANNA)
    yield stores
    stores.close()


def by_force(stores: Stores, account: str) -> int:
    """Everything that the blocks in the index name, added up one by one."""
    entries = stores.registry.page(account=account, limit=1000)
    total = 0
    for one in entries:
        query = sa.select(block_rows.c.hash, block_rows.c.raw).where(block_rows.c.dataset == one.id)
        with reading(stores.engine) as db:
            raws = {row.hash: bytes(row.raw) for row in db.execute(query)}
        sizes = {
            (named.kind, named.hash): named.size
            for name in raws
            for named in named_objects(dataset_of(stores, one).block(name).event)
        }
        total += sum(map(len, raws.values())) + sum(sizes.values())
    return total


def on_disk(stores: Stores, account: str) -> int:
    entries = stores.registry.page(account=account, limit=1000)
    return sum(info.size for one in entries for info in stores.objects.list(one.id))


def otherwise(block: HashedBlock, mark: int) -> AddData:
    """Another event with the slice of a block."""
    assert isinstance(block.event, AddData)
    return replace(block.event, extra=Attributes.of({"mark": mark}))


class History:
    """Random work on the datasets of Anna, of which every step may break off."""

    def __init__(self, stores: Stores, seed: int) -> None:
        self.stores, self.random = stores, random.Random(seed)
        self.chains: dict[str, tuple[DatasetEntry, list[HashedBlock]]] = {}
        self.made = 0

    def step(self) -> None:
        often = (self.post, self.post, self.post, self.reset, self.replace)
        work = self.random.choice((*often, self.delete, self.collect, self.upload, self.break_off))
        with perhaps_refusing("RefConflict"):
            work()

    def _some(self) -> tuple[DatasetEntry, list[HashedBlock]]:
        if not self.chains or (len(self.chains) < 4 and self.random.random() < 0.3):
            self.made += 1
            name = f"anna/d{self.made}"
            self.chains[name] = begun(self.stores, name)
        return self.chains[self.random.choice(sorted(self.chains))]

    def post(self) -> None:
        longer(self.stores, *self._some(), value=self.random.choice("xyz"))

    def reset(self) -> None:
        made, chain = self._some()
        keep = self.random.randrange(2, len(chain) + 1)
        reset(self.stores, made, target=chain[keep - 1].hash)
        del chain[keep:]

    def replace(self) -> None:
        """Rewrite the end of a chain: other blocks name the same slices."""
        made, chain = self._some()
        if len(chain) < 3:
            return
        at = self.random.randrange(2, len(chain))
        fresh, old = chain[:at], chain[-1].hash
        for block in chain[at:]:
            fresh.append(linked(fresh[-1], otherwise(block, self.random.randrange(10**9))))
        put_blocks(self.stores.objects, made.id, fresh[at:])
        move_head(self.stores, dataset_of(self.stores, made), old, fresh[-1].hash, fresh[at:])
        chain[:] = fresh

    def delete(self) -> None:
        made, _ = self._some()
        self.stores.forget_dataset(made.id)
        del self.chains[str(made.alias)]

    def collect(self) -> None:
        collect_garbage(self.stores, clock=TOMORROW)

    def upload(self) -> None:
        """An upload that nothing names: it counts until it is collected."""
        made, _ = self._some()
        content = self.random.randbytes(50)
        key = key_of(made, ObjectKind.DATA, Multihash.of(content))
        self.stores.quotas.reserve(key, len(content))
        if self.random.random() < 0.5:
            self.stores.objects.put(key, [content])
        collect_garbage(self.stores, clock=TOMORROW)

    def break_off(self) -> None:
        """A power cut in the transaction of a commit."""
        made, chain = self._some()

        def cut(*_: object) -> None:
            raise PowerCut("in the transaction")

        sa.event.listen(self.stores.engine, "commit", cut)
        try:
            with pytest.raises((PowerCut, NodeError)):
                grow(self.stores, made, list(chain), 3 * (len(chain) - 2))
        finally:
            sa.event.remove(self.stores.engine, "commit", cut)


@pytest.mark.parametrize("seed", range(int(os.environ.get("ODF_TEST_QUOTA_HISTORIES", "4"))))
def test_what_is_counted_is_what_the_blocks_name_after_any_history(
    local: Stores, seed: int
) -> None:
    history = History(local, seed)
    for _ in range(25):
        history.step()
        assert local.quotas.usage("anna").used == by_force(local, "anna")
    history.collect()
    assert local.quotas.usage("anna").used == by_force(local, "anna") == on_disk(local, "anna")
    assert local.quotas.usage(NODE).used == by_force(local, "anna")


def test_what_does_not_fit_is_refused_and_says_which_limit_and_who_can_raise_it(
    stores: Stores,
) -> None:
    stores.accounts.put_account(ANNA)
    made, chain = grown(stores, "anna/foo", slices=1)
    used, head = stores.quotas.usage("anna").used, chain[-1].hash
    stores.quotas.set_limit(ANNA.id, used + 10)
    with refusing("QuotaExceeded", match="account anna takes .*odf-node quota set anna") as told:
        longer(stores, made, chain)
    facts = told.value.facts
    assert (facts["used"], facts["limit"], facts["quota"]) == (used, used + 10, "account")
    assert stores.refs.head(made.id) == head
    assert stores.quotas.usage("anna").used == used
    with refusing("QuotaExceeded"):
        begun(stores, "anna/new")
    assert stores.registry.find(DatasetRef(alias=made.alias)) == made
    stores.quotas.set_limit(ANNA.id, None)
    longer(stores, made, chain)


def test_the_quota_of_each_account_is_that_of_those_without_one_and_the_node_has_its_own(
    stores: Stores,
) -> None:
    stores.accounts.put_account(ANNA)
    stores.quotas.set_limit(EACH, 1)
    with refusing("QuotaExceeded", match="account bob"):
        begun(stores, "bob/foo")
    stores.quotas.set_limit(ANNA.id, 10**6)
    made, chain = begun(stores, "anna/foo")
    stores.quotas.set_limit(NODE, 1)
    with refusing("QuotaExceeded", match="this node takes .*odf-node quota set --node"):
        longer(stores, made, chain)


def test_a_quota_below_what_is_stored_lets_heads_go_back_datasets_go_and_rewrites_happen(
    stores: Stores,
) -> None:
    stores.accounts.put_account(ANNA)
    made, chain = grown(stores, "anna/foo", slices=3)
    stores.quotas.set_limit(ANNA.id, 1)
    again = linked(chain[-2], otherwise(chain[-1], 1))
    move_head(stores, dataset_of(stores, made), chain[-1].hash, again.hash, [again])
    reset(stores, made, target=chain[2].hash)
    with refusing("QuotaExceeded"):
        longer(stores, made, chain[:3], value="other")
    before = stores.quotas.usage("anna").used
    collect_garbage(stores, clock=TOMORROW)
    assert stores.quotas.usage("anna").used == by_force(stores, "anna") < before
    stores.forget_dataset(made.id)
    assert stores.quotas.usage("anna").used == 0


def test_writers_at_the_same_time_do_not_take_the_same_room(stores: Stores) -> None:
    stores.accounts.put_account(ANNA)
    sets = [begun(stores, f"anna/d{number}") for number in range(4)]
    used = stores.quotas.usage("anna").used
    longer(stores, *sets[0])
    one = stores.quotas.usage("anna").used - used
    limit = used + 2 * one + one // 2
    stores.quotas.set_limit(ANNA.id, limit)
    refused = list[str]()

    def write(made: DatasetEntry, chain: list[HashedBlock]) -> None:
        try:
            longer(stores, made, chain)
        except NodeError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=write, args=each) for each in sets[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["QuotaExceeded"] * 2
    assert stores.quotas.usage("anna").used <= limit


def test_what_a_version_that_does_not_count_stored_is_counted_by_the_next_collection(
    local: Stores,
) -> None:
    grown(local, "anna/foo")
    used = local.quotas.usage("anna").used
    with local.engine.begin() as db:
        db.execute(sa.update(dataset_rows).values(stored_bytes=None))
        db.execute(sa.text("DELETE FROM stored_objects"))
    assert local.quotas.usage("anna").uncounted == 1
    collect_garbage(local, clock=TOMORROW)
    found = local.quotas.usage("anna")
    assert (found.used, found.uncounted) == (used, 0)
    with local.engine.begin() as db:  # an older service goes on beside this version
        db.execute(sa.text("DELETE FROM stored_objects"))
        db.execute(sa.update(dataset_rows).values(stored_bytes=dataset_rows.c.stored_bytes - 99))
    collect_garbage(local, clock=TOMORROW)
    assert local.quotas.usage("anna").used == used


def test_an_upload_counts_from_its_beginning_and_a_failed_one_does_not(local: Stores) -> None:
    made, _ = begun(local, "anna/foo")
    used = local.quotas.usage("anna").used
    key = key_of(made, ObjectKind.DATA, Multihash.of(b"rows"))
    assert local.quotas.reserve(key, 4)
    assert not local.quotas.reserve(key, 4)
    assert local.quotas.usage("anna").used == used + 4
    local.quotas.release(key)
    assert local.quotas.usage("anna").used == used
    local.quotas.set_limit(ANNA.id, used + 3)
    with refusing("QuotaExceeded"):
        local.quotas.reserve(key, 4)


def test_a_slice_that_was_uploaded_first_counts_once(local: Stores) -> None:
    made, chain = begun(local, "anna/foo")
    part = put_slice(local, made, 0)
    local.quotas.reserve(key_of(made, ObjectKind.DATA, part.physical_hash), part.size)
    longer(local, made, chain)
    assert local.quotas.usage("anna").used == by_force(local, "anna")


def test_a_renamed_account_keeps_its_quota_and_what_it_takes(local: Stores) -> None:
    begun(local, "anna/foo")
    local.quotas.set_limit(ANNA.id, 10**6)
    before = local.quotas.usage("anna")
    local.move_datasets(Name("anna"), Name("berta"), renamed=ANNA.id)
    assert local.quotas.usage("berta") == before
    local.accounts.delete(ANNA.id)
    assert local.quotas.limit(ANNA.id) is None


def test_a_push_of_thousands_of_blocks_is_counted(local: Stores) -> None:
    made, chain = begun(local, "anna/foo")
    blocks = [linked(chain[-1], SetInfo(description="0"))]
    for number in range(1, 1200):
        blocks.append(linked(blocks[-1], SetInfo(description=str(number))))
    dataset_of(local, made).commit(blocks, expected=chain[-1].hash)
    assert local.quotas.usage("anna").used == by_force(local, "anna")
