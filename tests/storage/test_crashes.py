"""Whatever breaks at whichever step: readers see all or nothing, and a second try succeeds.

Failures are injected by wrapping the real stores; what lies below keeps running on.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chain_maker import (
    NOON,
    add_data,
    chain,
    entry,
    infos,
    long_chain,
    parquet,
    slice_of,
    table,
)
from processes import python_path

from odf_protocol.chain.rules import author, fold
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.errors import code_of
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import HashedBlock, SetDataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.node.commits import Commit, commit_all
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

ID = entry().id
ROOT = Path(__file__).parents[2]


WRITES = ("put", "put_blocks", "put_all", "write_ref", "write_refs", "write_alias")


class PowerCut(RuntimeError):
    """What the failing step raises; no error of the node."""


class Fuse:
    """Lets so many calls pass, and fails at the next: before it, or after it took effect."""

    def __init__(self, passes: int, *, after: bool) -> None:
        self.passes, self.after = passes, after
        self.blown = False

    def run(self, call: Callable[[], Any]) -> Any:
        self.passes -= 1
        if self.passes >= 0:
            return call()
        if self.after:
            call()
        self.blown = True
        raise PowerCut

    def wrap(self, store: Any, *names: str) -> Any:
        return _Fused(self, store, names)


class _Fused:
    def __init__(self, fuse: Fuse, store: Any, names: tuple[str, ...]) -> None:
        self._fuse, self._store, self._names = fuse, store, names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in self._names:
            return method
        return lambda *args, **kwargs: self._fuse.run(lambda: method(*args, **kwargs))


def fused(stores: Stores, fuse: Fuse) -> Stores:
    return replace(
        stores,
        objects=fuse.wrap(stores.objects, *WRITES),
        refs=fuse.wrap(stores.refs, "move", "move_all"),
        registry=fuse.wrap(stores.registry, "create"),
    )


def check_nothing_half_done(stores: Stores) -> None:
    """Every visible head leads to a whole chain, in the index and among the objects."""
    for each in stores.registry.page():
        blocks = Dataset(each, stores).blocks()
        fold(blocks)
        for block in blocks:
            assert stores.objects.stat(ObjectKey(each.id, ObjectKind.BLOCK, block.hash))
            for named in named_objects(block.event):
                assert stores.objects.stat(ObjectKey(each.id, named.kind, named.hash))
        published = stores.objects.read_ref(each.id, "head")
        if published is not None:
            assert published in {move.new for move in stores.refs.moves(after=0)}


@pytest.mark.parametrize("after", [False, True])
def test_a_creation_that_breaks_off_is_all_or_nothing(stores: Stores, after: bool) -> None:
    blocks = long_chain(ID, 2)
    for passes in range(10):
        fuse = Fuse(passes, after=after)
        try:
            fused(stores, fuse).create_dataset(entry(), blocks)
        except PowerCut:
            check_nothing_half_done(stores)
            if stores.registry.find(DatasetRef(id=ID)) is None:
                assert stores.objects.read_ref(ID, "head") is None
                stores.create_dataset(entry(), blocks)
        assert stores.dataset(DatasetRef(id=ID)).blocks() == blocks
        stores.republish_all()
        assert stores.objects.read_ref(ID, "head") == blocks[-1].hash
        stores.forget_dataset(ID)
        if not fuse.blown:
            return
    pytest.fail("the creation has more steps than were tried")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("force", [False, True])
def test_a_commit_that_breaks_off_is_all_or_nothing(
    stores: Stores, after: bool, force: bool
) -> None:
    blocks = long_chain(ID, 2)
    stores.create_dataset(entry(), blocks)
    for passes in range(10):
        more = follow(blocks, f"{passes}a", f"{passes}b")
        head, fuse = blocks[-1].hash, Fuse(passes, after=after)
        try:
            broken = fused(stores, fuse).dataset(DatasetRef(id=ID))
            broken.commit(more, expected=head, force=force)
        except PowerCut:
            check_nothing_half_done(stores)
            dataset = stores.dataset(DatasetRef(id=ID))
            assert dataset.head() in (head, more[-1].hash)
            dataset.commit(more, expected=head, force=force)
        blocks += more
        assert stores.dataset(DatasetRef(id=ID)).blocks() == blocks
        assert stores.objects.read_ref(ID, "head") == blocks[-1].hash
        if not fuse.blown:
            return
    pytest.fail("the commit has more steps than were tried")


def with_slice(stores: Stores, number: int, value: str) -> Commit:
    """A slice and its block, for one of several datasets."""
    dataset = stores.dataset(DatasetRef(alias=entry(f"kamu/several-{number}").alias))
    state = dataset.state()
    assert state.head is not None
    prev = state.last_offset
    start = 0 if prev is None else prev + 1
    rows = table(start, 1, value=f"{value} {number}")
    content = parquet(rows)
    part = slice_of(content, rows, start)
    blocks, _ = author(state, [add_data(part, prev=prev)], system_time=NOON)
    return Commit(
        dataset=dataset,
        blocks=blocks,
        expected=state.head,
        slices=[(part.physical_hash, content)],
    )


def several(stores: Stores, count: int = 3) -> None:
    """Datasets that take such slices."""
    columns = pa.schema([field.with_nullable(False) for field in table(0, 1).schema])
    for number in range(count):
        each = entry(f"kamu/several-{number}")
        schema = SetDataSchema(schema=from_arrow(columns))
        stores.create_dataset(each, chain(each.id, [schema])[0])


@pytest.mark.parametrize("after", [False, True])
def test_of_commits_to_several_datasets_that_break_off_each_is_whole_or_absent(
    stores: Stores, after: bool
) -> None:
    several(stores)
    for passes in range(10):
        fuse = Fuse(passes, after=after)
        commits = [with_slice(fused(stores, fuse), number, str(passes)) for number in range(3)]
        try:
            assert commit_all(fused(stores, fuse), commits) == [None] * 3
        except PowerCut:
            check_nothing_half_done(stores)
            moved = {commit.dataset.head() == commit.blocks[-1].hash for commit in commits}
            assert len(moved) == 1
            if moved == {False}:
                again = [with_slice(stores, number, str(passes)) for number in range(3)]
                assert commit_all(stores, again) == [None] * 3
            stores.republish_all()
        check_nothing_half_done(stores)
        for commit in commits:
            assert stores.objects.read_ref(commit.dataset.id, "head") == commit.dataset.head()
        if not fuse.blown:
            return
    pytest.fail("commits to several datasets have more steps than were tried")


def test_among_commits_to_several_datasets_who_cannot_falls_alone(stores: Stores) -> None:
    several(stores, 5)
    commits = [with_slice(stores, number, "x") for number in range(5)]
    late, broken, missing = commits[1], commits[2], commits[3]
    state = late.dataset.state()
    late.dataset.commit(author(state, infos("x"), system_time=NOON)[0], expected=late.expected)
    [(name, content)] = broken.slices
    commits[2] = replace(broken, slices=[(name, bytes(len(content)))])
    commits[3] = replace(missing, slices=())
    refused = commit_all(stores, commits)
    kinds = [None, "RefConflict", "HashMismatch", "ObjectMissing", None]
    assert [error and code_of(error) for error in refused] == kinds
    for commit, error in zip(commits, refused, strict=True):
        assert (commit.dataset.head() == commit.blocks[-1].hash) == (error is None)
        assert stores.objects.read_ref(commit.dataset.id, "head") == commit.dataset.head()
    check_nothing_half_done(stores)


def follow(blocks: list[HashedBlock], *texts: str) -> list[HashedBlock]:
    return author(fold(blocks), infos(*texts), system_time=blocks[-1].block.system_time)[0]


def test_opening_the_stores_publishes_heads_that_a_crash_left_behind(tmp_path: Path) -> None:
    settings = StoreSettings(data=tmp_path, durable=False)
    stores = open_stores(settings)
    blocks = long_chain(ID, 3)
    stores.create_dataset(entry(), blocks[:1])
    stores.refs.move(ID, expected=blocks[0].hash, new=blocks[2].hash, blocks=blocks[1:])
    lost = entry("kamu/lost")
    stores.registry.create(lost, blocks=long_chain(lost.id, 1))
    stores.close()
    assert stores.objects.read_ref(ID, "head") == blocks[0].hash
    again = open_stores(settings)
    assert again.objects.read_ref(ID, "head") == blocks[2].hash
    assert again.objects.read_ref(lost.id, "head") == again.refs.head(lost.id)
    assert again.republish_all() == 0
    again.close()


KILLED = """
import os, sys
from pathlib import Path
from chain_maker import *
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.sql import engine
stores = open_stores(StoreSettings(data=Path(sys.argv[1])))
blocks = long_chain(entry().id, 200)
dataset = stores.create_dataset(entry(), blocks[:1])
for number in range(1, 200):
    print(number, flush=True)
    dataset.commit([blocks[number]], expected=blocks[number - 1].hash)
"""


@pytest.mark.parametrize("lines", [3, 17, 40])
def test_a_killed_process_leaves_a_whole_dataset(tmp_path: Path, lines: int) -> None:
    path = python_path(ROOT / "tests/support")
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
    )
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    stores = open_stores(StoreSettings(data=tmp_path))
    dataset = stores.dataset(DatasetRef(id=ID))
    found = dataset.blocks()
    assert lines <= len(found) + 1
    assert found == long_chain(ID, 200)[: len(found)]
    assert stores.objects.read_ref(ID, "head") == dataset.head()
    check_nothing_half_done(stores)
    dataset.commit(follow(found, "after the crash"), expected=dataset.head())
    stores.close()
