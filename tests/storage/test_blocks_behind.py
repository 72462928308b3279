"""Blocks behind a block are those of the chain asked for, whatever is pushed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import linked
from upkeep_parts import dataset_of, grown

from odf_protocol.metadata.events import SetInfo
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores


@pytest.fixture
def stores(empty_postgres_url: str, tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path, database_url=empty_postgres_url))
    yield stores
    stores.close()


def test_a_forced_push_while_blocks_are_counted_and_read_adds_no_other_branch(
    stores: Stores,
) -> None:
    made, chain = grown(stores)
    first, *later = chain
    dataset, other = dataset_of(stores, made), [linked(first, SetInfo(description="other"))]
    assert stores.engine is not None

    @sa.event.listens_for(stores.engine, "after_cursor_execute")
    def force(*call: object) -> None:
        if "count(" in str(call[2]) and other:
            dataset.commit([other.pop()], expected=chain[-1].hash, force=True)

    found = stores.blocks.behind(made.id, first.hash, chain[-1].hash, limit=2)
    assert not other
    assert found is not None
    assert [block.hash for block in found] == [block.hash for block in later[:2]]
