"""The index made again from the objects: the same as before, whatever the store and database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import sqlalchemy as sa
from chain_maker import chain, entry, infos, linked, long_chain, seed, some_id
from refusals import refusing
from upkeep_parts import TOMORROW, dataset_of, grown, key_of, next_block, put_slice

from odf_protocol.codec.blocks import peek_block
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import (
    DatasetKind,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.info import NodeInfo, load_info
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.compare import compare_index
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.datasets.upkeep.rebuild import RebuildReport, rebuild_index
from odf_storage.stores.index.sql import DatasetRegistry, RefIndex
from odf_storage.stores.index.sql_blocks import SqlBlockIndex
from odf_storage.stores.objects.memory import MemoryObjectStore
from odf_storage.stores.ports.values import ObjectKind, Visibility
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import migrate


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Stores]:
    stores = open_stores(StoreSettings(data=tmp_path / "data", durable=False))
    yield stores
    stores.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[sa.Engine]:
    """An empty, migrated index."""
    engine = open_engine(sqlite_url(tmp_path / "fresh.db"), durable=False)
    migrate(engine)
    yield engine
    engine.dispose()


READERS: dict[str, Callable[[], AbstractContextManager[Executor | None]]] = {
    "none": nullcontext,
    "threads": lambda: ThreadPoolExecutor(4),
    "processes": lambda: ProcessPoolExecutor(1, get_context("spawn")),
}


def over(stores: Stores, engine: sa.Engine) -> Stores:
    """The same objects under another index."""
    return replace(
        stores,
        engine=engine,
        registry=DatasetRegistry(engine),
        refs=RefIndex(engine),
        blocks=SqlBlockIndex(engine),
    )


def derivative(stores: Stores, alias: str) -> None:
    made = entry(alias, kind=DatasetKind.Derivative)
    query = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
    source = TransformInput(dataset_ref=DatasetRef(id=some_id("kamu/foo")), alias="input")
    first = linked(None, seed(made.id, DatasetKind.Derivative))
    blocks = [first, linked(first, SetTransform(inputs=(source,), transform=query))]
    stores.create_dataset(replace(made, visibility=Visibility.PUBLIC), blocks)
    stores.registry.set_inputs(made.id, [some_id("kamu/foo")])


@pytest.mark.parametrize("readers", ["none", "threads", "processes"])
def test_an_index_made_again_is_the_index_that_was(
    local: Stores, fresh: sa.Engine, readers: str
) -> None:
    made, blocks = grown(local)
    derivative(local, "kamu/bar")
    with READERS[readers]() as pool:
        report = rebuild_index(local.objects, fresh, pool=pool)
    assert report == RebuildReport(datasets=2, blocks=6)
    again = over(local, fresh)
    for known in local.registry.page():
        assert again.registry.get(DatasetRef(id=known.id)) == known
        assert dataset_of(again, known).blocks() == dataset_of(local, known).blocks()
        assert dataset_of(again, known).state() == dataset_of(local, known).state()
    assert again.registry.dependants(made.id) == local.registry.dependants(made.id) != []
    assert compare_index(local.objects, fresh).ok
    assert compare_index(local.objects, engine_of(local)).ok
    assert len(blocks) == 4


def test_a_node_goes_on_over_an_index_made_again(local: Stores, fresh: sa.Engine) -> None:
    made, blocks = grown(local)
    rebuild_index(local.objects, fresh)
    again = over(local, fresh)
    block = next_block(blocks, put_slice(again, made, 6))
    dataset_of(again, made).commit([block], expected=blocks[-1].hash)
    assert dataset_of(again, made).blocks() == [*blocks, block]
    assert [move.new for move in again.refs.moves(after=0)] == [blocks[-1].hash, block.hash]
    assert collect_garbage(again, clock=TOMORROW).removed == {}


def test_an_index_on_postgresql_is_made_again(local: Stores, empty_postgres_url: str) -> None:
    grown(local)
    derivative(local, "kamu/bar")
    engine = open_engine(empty_postgres_url)
    migrate(engine)
    assert rebuild_index(local.objects, engine).blocks == 6
    assert compare_index(local.objects, engine).ok
    engine.dispose()


def test_objects_of_any_store_will_do(fresh: sa.Engine) -> None:
    objects = MemoryObjectStore()
    made = entry()
    blocks = long_chain(made.id, 3)
    for block in blocks:
        objects.put(key_of(made, ObjectKind.BLOCK, block.hash), [block.raw])
    objects.write_ref(made.id, "head", blocks[-1].hash)
    objects.write_alias(made.id, DatasetAlias.parse("foo"))
    report = rebuild_index(objects, fresh)
    assert (report.datasets, report.blocks) == (1, 3)
    found = DatasetRegistry(fresh).get(DatasetRef(alias=DatasetAlias.parse("kamu/foo")))
    assert found.visibility is Visibility.PRIVATE, "nobody said that it is public"
    assert "no info/node" in report.notes[0]


def engine_of(stores: Stores) -> sa.Engine:
    assert stores.engine is not None
    return stores.engine


def test_an_index_with_datasets_is_not_overwritten(local: Stores) -> None:
    grown(local)
    with refusing("IndexNotEmpty"):
        rebuild_index(local.objects, engine_of(local))


def test_old_chains_are_left_out_and_no_difference(local: Stores, fresh: sa.Engine) -> None:
    made, blocks = grown(local)
    other = [*blocks[:2], next_block(blocks[:2], put_slice(local, made, 0, value="y"))]
    dataset_of(local, made).commit(other, expected=blocks[-1].hash, force=True)
    assert rebuild_index(local.objects, fresh).blocks == 3
    compared = compare_index(local.objects, engine_of(local))
    assert (compared.ok, compared.former_blocks) == (True, 2)


def test_a_folder_without_a_head_is_no_dataset(local: Stores, fresh: sa.Engine) -> None:
    made = entry()
    for block in long_chain(made.id, 2):
        local.objects.put(key_of(made, ObjectKind.BLOCK, block.hash), [block.raw])
    assert rebuild_index(local.objects, fresh) == RebuildReport()


def test_a_dataset_with_a_hole_is_left_out_whole_and_reported(
    local: Stores, fresh: sa.Engine
) -> None:
    made, blocks = grown(local)
    good, _ = grown(local, "kamu/bar")
    local.objects.delete(key_of(made, ObjectKind.BLOCK, blocks[1].hash))
    report = rebuild_index(local.objects, fresh)
    assert not report.ok
    assert len(report.problems) == 1
    assert str(blocks[1].hash) in report.problems[0]
    assert [known.id for known in DatasetRegistry(fresh).page()] == [good.id]
    assert SqlBlockIndex(fresh).count(made.id) == 0


def test_damaged_blocks_and_strangers_are_not_taken_for_blocks(
    local: Stores, fresh: sa.Engine
) -> None:
    made, blocks = grown(local)
    path = local.objects.path(key_of(made, ObjectKind.BLOCK, blocks[1].hash))  # type: ignore[attr-defined]
    path.write_bytes(blocks[2].raw)
    stray = b"not a block"

    local.objects.put(key_of(made, ObjectKind.BLOCK, Multihash.of(stray)), [stray])
    report = rebuild_index(local.objects, fresh)
    assert str(blocks[1].hash) in report.problems[0]


def test_a_chain_under_the_wrong_folder_is_refused(local: Stores, fresh: sa.Engine) -> None:
    folder = entry("kamu/other")
    blocks, _ = chain(some_id("kamu/foo"), infos("x"))
    for block in blocks:
        local.objects.put(key_of(folder, ObjectKind.BLOCK, block.hash), [block.raw])
    local.objects.write_ref(folder.id, "head", blocks[-1].hash)
    assert "Seed" in rebuild_index(local.objects, fresh).problems[0]


def test_two_datasets_of_one_name_are_both_kept(local: Stores, fresh: sa.Engine) -> None:
    one, _ = grown(local)
    two, _ = grown(local, "kamu/bar")
    local.objects.write_alias(two.id, DatasetAlias.parse("kamu/FOO"))
    report = rebuild_index(local.objects, fresh)
    assert (report.datasets, len(report.notes)) == (2, 1)
    names = {str(known.alias) for known in DatasetRegistry(fresh).page()}
    assert len(names & {"kamu/foo", "kamu/FOO"}) == 1
    assert len(names & {f"kamu/{one.id.multibase}", f"kamu/{two.id.multibase}"}) == 1


@pytest.mark.parametrize(
    ("statement", "differences"),
    [
        ("UPDATE datasets SET alias = 'kamu/other'", 1),
        ("UPDATE datasets SET visibility = 'Public'", 1),
        ("UPDATE blocks SET raw = x'00' WHERE sequence_number = 1", 1),
        ("DELETE FROM blocks WHERE sequence_number = 1", 1),
        ("DELETE FROM refs", 1),
        ("DELETE FROM datasets", 6),
    ],
)
def test_every_difference_is_told(local: Stores, statement: str, differences: int) -> None:
    grown(local)
    with engine_of(local).begin() as db:
        db.exec_driver_sql(statement)
    report = compare_index(local.objects, engine_of(local))
    assert (report.ok, report.difference_count) == (False, differences)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "[]",
        "{}",
        '{"version":2}',
        '{"version":1,"visibility":"Secret"}',
        "{" * 500,
        '{"version":1,"visibility":"Public","createdAt":5}',
        "\x00",
    ],
)
def test_a_note_that_is_none_of_ours_is_no_note(text: str | None) -> None:
    assert load_info(text) is None


def test_a_note_is_read_as_it_was_written() -> None:
    info = NodeInfo(
        visibility=Visibility.PUBLIC,
        created_at=entry().created_at,
        pushed=True,
        unfinished=True,
    )
    assert load_info(info.dump()) == info


def test_the_frame_of_a_block_is_that_of_the_block() -> None:
    blocks = long_chain(some_id("frame"), 3)
    for block in blocks:
        frame = peek_block(block.raw)
        assert (frame.hash, frame.prev) == (block.hash, block.prev)
        assert frame.sequence_number == block.sequence_number
        assert frame.event == type(block.event).__name__
    for cut in range(len(blocks[1].raw) - 1):
        with refusing("MalformedBlock"):
            peek_block(blocks[1].raw[:cut])
