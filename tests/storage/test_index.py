"""Registry, references and blocks keep their promises on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from chain_maker import chain, entry

from odf_node.storage.stores.index import sql_blocks
from odf_node.storage.stores.index.sql import SqlDatasetRegistry
from odf_node.storage.stores.index.sql_blocks import SqlBlockIndex
from odf_node.storage.stores.ports.errors import BlockDamaged
from odf_node.storage.stores.sql.tables import blocks as block_rows
from tests.conformance.block_index import BlockIndexContract, BlocksBehindContract
from tests.conformance.ref_index import RefIndexContract
from tests.conformance.registry import RegistryContract


class TestRegistry(RegistryContract):
    pass


class TestRefIndex(RefIndexContract):
    pass


class TestBlockIndex(BlockIndexContract):
    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_blocks, "LINEAGE_FIRST_PAGE", 2)
        monkeypatch.setattr(sql_blocks, "LINEAGE_PAGE", 5)
        monkeypatch.setattr(sql_blocks, "INSERT_BATCH", 7)


class TestBlocksBehind(BlocksBehindContract):
    @pytest.fixture
    def reads(self, database: sa.Engine) -> SqlBlockIndex:
        return SqlBlockIndex(database)


def test_a_block_damaged_in_the_database_is_reported_and_not_served(database: sa.Engine) -> None:
    created = entry()
    blocks, _ = chain(created.id)
    SqlDatasetRegistry(database).create(created, blocks=blocks)
    with database.begin() as connection:
        connection.execute(sa.update(block_rows).values(raw=blocks[0].raw[:-1] + b"\x01"))
    with pytest.raises(BlockDamaged):
        SqlBlockIndex(database).find(created.id, blocks[0].hash)
