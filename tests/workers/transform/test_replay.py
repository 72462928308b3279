"""Executions are made again from what the chain says, here and on another node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.workers.derivatives import (
    add_rows,
    commit,
    derivative,
    moment,
    node_of,
    root,
    transform,
)
from throwaway import throwaway_stores

from odf_protocol.metadata.events import ExecuteTransform, HashedBlock
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import (
    Compatible,
    EngineNote,
    EngineRun,
    load_note,
    read_note,
)
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.transform.chains import engine_of, is_trusted
from odf_workers.jobs.transform.replay import NotVerifiable, replay
from odf_workers.jobs.transform.run import run_transform
from odf_workers.plan.transform import IterationLimits

COPY = "select op, event_time, city, n * 10 as n from cities"
DAY = "2024-01-0{}T00:00:00Z"


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path, limits=IterationLimits(rows=2, bytes=1 << 30))


def executions(dataset: Dataset) -> list[HashedBlock]:
    return [block for block in dataset.blocks() if isinstance(block.event, ExecuteTransform)]


def computed(stores: Stores, bench: Any, folder: Path) -> tuple[Dataset, Dataset]:
    """A root of five days and what was computed of it, in three iterations."""
    cities = root(stores, "cities")
    for n in range(1, 6):
        rows = [(DAY.format(n), "A", n)]
        add_rows(stores, cities, rows, folder, at=10 + n, watermark=DAY.format(n))
    tens = derivative(stores, "tens", [cities], COPY)
    run_transform(stores, tens, TransformPayload(), bench, now=moment(1000))
    return cities, tens


def test_every_execution_is_reproduced(stores: Stores, bench: Any, tmp_path: Path) -> None:
    _, tens = computed(stores, bench, tmp_path)
    found = executions(tens)
    assert len(found) == 3
    for block in found:
        replayed = replay(stores, tens, block, bench)
        assert replayed.differences == ()
        assert replayed.recorded == EngineRun(3, replayed.engine, replayed.engine_version)


def test_replay_takes_the_query_in_force_at_the_block(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities, tens = computed(stores, bench, tmp_path)
    commit(tens, transform([cities], COPY.replace("10", "100")), at=1500)
    add_rows(stores, cities, [(DAY.format(6), "B", 6)], tmp_path, at=20, watermark=DAY.format(6))
    run_transform(stores, tens, TransformPayload(), bench, now=moment(2000))
    assert all(replay(stores, tens, block, bench).differences == () for block in executions(tens))


def test_rows_of_another_query_are_found_out(stores: Stores, bench: Any, tmp_path: Path) -> None:
    from msgspec.structs import replace

    from odf_protocol.chain.rules import author
    from odf_protocol.multihash import Multihash

    _, tens = computed(stores, bench, tmp_path)
    first = executions(tens)[0]
    event = first.event
    assert isinstance(event, ExecuteTransform)
    assert event.new_data is not None
    wrong = Multihash(event.new_data.logical_hash.code, bytes(32))
    forged = replace(event, new_data=replace(event.new_data, logical_hash=wrong))
    assert first.prev is not None
    state = tens.state(first.prev)
    blocks, _ = author(state, [forged], system_time=first.block.system_time)
    assert replay(stores, tens, blocks[0], bench).differences == ("new_data",)


def test_a_rewritten_input_is_not_verifiable_rather_than_wrong(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities, tens = computed(stores, bench, tmp_path)
    earlier = cities.blocks()[2].hash
    stores.refs.move(cities.id, expected=cities.head(), new=earlier)
    add_rows(stores, cities, [(DAY.format(9), "Z", 9)], tmp_path, at=90, watermark=DAY.format(9))
    first, *later = executions(tens)
    for block in later:
        with pytest.raises(NotVerifiable):
            replay(stores, tens, block, bench)
    stores.forget_dataset(cities.id)
    with pytest.raises(NotVerifiable):
        replay(stores, tens, first, bench)


def test_another_node_derives_the_same_rows_from_inputs_and_definition(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities, tens = computed(stores, bench, tmp_path)
    elsewhere = throwaway_stores()
    copy = _copied(cities, elsewhere)
    again = derivative(elsewhere, "tens", [copy], COPY)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    other = node_of(elsewhere, folder, limits=IterationLimits(rows=2, bytes=1 << 30))
    run_transform(elsewhere, again, TransformPayload(), other, now=moment(1000))
    ours, theirs = executions(tens), executions(again)
    assert [block.event for block in theirs] == [block.event for block in ours]


def _copied(dataset: Dataset, stores: Stores) -> Dataset:
    """The dataset as another node has it once it pulled it."""
    from odf_storage.stores.index.named_objects import named_objects
    from odf_storage.stores.ports.values import ObjectKey

    blocks = dataset.blocks()
    for block in blocks:
        for named in named_objects(block.event):
            with dataset.open_object(named.kind, named.hash) as stream:
                key = ObjectKey(dataset.id, named.kind, named.hash)
                stores.objects.put(key, [stream.read()])
    return stores.create_dataset(dataset.entry, blocks)


def test_the_recorded_engine_is_preferred() -> None:
    class Old:
        name, version = "spark", "1.0"

    class New:
        name, version = "spark", "2.0"

    query = transform([], "select 1", engine="Spark").transform
    engines: Any = [New(), Old()]
    assert engine_of(query, engines, EngineRun(1, "spark", "1.0")).version == "1.0"
    assert engine_of(query, engines, EngineRun(1, "spark", "0.9")).version == "2.0"
    assert engine_of(query, engines, None).version == "2.0"
    note = EngineNote().with_compatible(Compatible("spark", "1.0", "2.0"))
    recorded = EngineRun(1, "spark", "1.0")
    assert is_trusted(note, recorded, engines[0])
    assert engine_of(query, engines, recorded, note).version == "2.0"
    assert not is_trusted(EngineNote(), recorded, engines[0])


def test_a_note_of_engines_has_a_line_for_each_change() -> None:
    note = EngineNote()
    for number in range(3, 10):
        note = note.with_run(EngineRun(number, "spark", "1.0" if number < 7 else "2.0"))
    note = note.with_compatible(Compatible("spark", "1.0", "2.0"))
    assert note.dump() == "3 spark 1.0\n7 spark 2.0\n= spark 1.0 2.0"
    assert load_note(note.dump()) == note
    assert load_note("nonsense\n7 spark") == EngineNote()
    assert [run and run.version for run in map(note.at, (2, 3, 6, 7))] == [
        None,
        "1.0",
        "1.0",
        "2.0",
    ]
    assert note.with_run(EngineRun(4, "spark", "3.0")).dump().startswith("3 spark 1.0\n4 spark 3.0")


def test_a_full_note_loses_its_oldest_lines() -> None:
    note = EngineNote()
    for number in range(200):
        note = note.with_run(EngineRun(number, "spark", f"1.{number}"))
    text = note.dump()
    assert len(text.encode()) <= 1024
    assert text.endswith("199 spark 1.199")


def test_notes_survive_with_the_objects(stores: Stores, bench: Any, tmp_path: Path) -> None:
    _, tens = computed(stores, bench, tmp_path)
    (run,) = read_note(stores.objects, tens.id).runs
    assert (run.since, run.engine) == (3, "datafusion")


def test_a_new_engine_version_stands_for_the_old_one_once_all_comes_out_the_same(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.jobs.transform.replay import deprecate

    _, tens = computed(stores, bench, tmp_path)
    old = bench.engines.first.version
    assert deprecate(stores, tens, bench).compatible == []
    monkeypatch.setattr(bench.engines.first, "version", "99.0", raising=False)
    found = deprecate(stores, tens, bench)
    assert (found.ok, found.same) == (True, 3)
    note = read_note(stores.objects, tens.id)
    assert note.compatible == (Compatible("datafusion", old, "99.0"),)
    assert is_trusted(note, note.runs[0], bench.engines.first)


def test_what_is_computed_while_versions_are_compared_stays_noted(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_storage.datasets.dataset.engines import write_note
    from odf_workers.jobs.transform.replay import deprecate

    _, tens = computed(stores, bench, tmp_path)
    monkeypatch.setattr(bench.engines.first, "version", "99.0", raising=False)

    def computing(_count: int) -> None:
        note = read_note(stores.objects, tens.id)
        write_note(stores.objects, tens.id, note.with_run(EngineRun(50, "datafusion", "99.0")))

    assert deprecate(stores, tens, bench, progress=computing).ok
    note = read_note(stores.objects, tens.id)
    assert [run.since for run in note.runs] == [3, 50]
    assert len(note.compatible) == 1


def test_an_engine_that_gives_other_rows_is_not_noted(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.jobs.transform.replay import deprecate

    _, tens = computed(stores, bench, tmp_path)
    real = bench.engines.first.execute_transform

    def other(request: Any, *more: Any) -> Any:
        from msgspec.structs import replace

        query = transform([], COPY.replace("10", "11"), engine="datafusion").transform
        return real(replace(request, transform=query), *more)

    monkeypatch.setattr(bench.engines.first, "execute_transform", other)
    monkeypatch.setattr(bench.engines.first, "version", "99.0", raising=False)
    found = deprecate(stores, tens, bench)
    assert len(found.differing) == 3
    assert read_note(stores.objects, tens.id).compatible == ()
