"""Reads that share a transaction go by a reader, which is passed; others share nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from chain_maker import NOON, chain, entry

from odf_protocol.chain.rules import fold
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.dataset.state_cache import StateCache
from odf_storage.datasets.node.reader import Reader
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Account, AccountId, Role, StoredPassword
from odf_storage.stores.sql.engine import reading

ENTRY = entry("kamu/foo")
BLOCKS = chain(ENTRY.id)[0]
ALICE = Account(AccountId("1" * 16), "alice")

READS: dict[str, Callable[[Any], Any]] = {
    "an entry": lambda by: by.registry.find(DatasetRef(id=ENTRY.id)),
    "entries by id": lambda by: by.registry.find_all([ENTRY.id]),
    "entries by name": lambda by: by.registry.find_named([ENTRY.alias]),
    "a page of entries": lambda by: by.registry.page(),
    "a head": lambda by: by.refs.head(ENTRY.id),
    "heads": lambda by: by.refs.heads([ENTRY.id]),
    "a block": lambda by: by.blocks.find(ENTRY.id, BLOCKS[-1].hash),
    "blocks": lambda by: by.blocks.raw(ENTRY.id, BLOCKS[-1].hash),
    "a lineage": lambda by: list(by.blocks.lineage(ENTRY.id, BLOCKS[-1].hash)),
    "a mirror": lambda by: by.mirrors.find(ENTRY.id) is None,
    "an account": lambda by: by.accounts.account(ALICE.id),
    "a password": lambda by: by.accounts.find_password(ALICE.id),
    "roles": lambda by: by.roles.of_account(ALICE.id),
}


@pytest.fixture
def kept(stores: Stores) -> Stores:
    """Stores with a dataset and an account that may do something with it."""
    stores.create_dataset(ENTRY, BLOCKS)
    stores.accounts.put_account(ALICE)
    stores.accounts.set_password(ALICE.id, StoredPassword("hashed", NOON))
    stores.roles.put(ENTRY.id, ALICE.id, Role.READER)
    return stores


@pytest.fixture
def begun(kept: Stores) -> list[sa.Connection]:
    """Connections that began a transaction, in order."""
    found: list[sa.Connection] = []
    sa.event.listen(kept.engine, "begin", found.append)
    return found


def test_all_reads_of_a_reader_are_one_transaction(
    kept: Stores, begun: list[sa.Connection]
) -> None:
    with kept.reading() as reader:
        found = {name: read(reader) for name, read in READS.items()}
        assert len(begun) == 1
    assert found == {name: read(kept) for name, read in READS.items()}
    assert all(found.values())


def test_a_chain_is_folded_in_the_transaction_of_its_reader(
    kept: Stores, begun: list[sa.Connection]
) -> None:
    with reading(kept.engine) as db:
        nothing_remembered = StateCache()
        assert Reader(db, nothing_remembered).chain(ENTRY.id).state() == fold(BLOCKS)
        assert len(begun) == 1


@pytest.mark.parametrize("name", READS)
def test_a_read_that_is_not_passed_the_reader_shares_nothing_with_it(
    kept: Stores, begun: list[sa.Connection], name: str
) -> None:
    with kept.reading() as reader:
        reader.refs.head(ENTRY.id)
        READS[name](kept)
        assert len(begun) > 1


def test_a_reader_cannot_write(kept: Stores) -> None:
    with kept.reading() as reader:
        for port, change in [
            (reader.registry, "create"),
            (reader.refs, "move"),
            (reader.mirrors, "put"),
            (reader.accounts, "put_account"),
            (reader.roles, "put"),
        ]:
            assert not hasattr(port, change)
