"""Executions that another engine made: rows decide, and rules of ours accuse nobody."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.workers.derivatives import add_rows, derivative, moment, node_of, read, root
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.errors import Conflict
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import Checkpoint, ExecuteTransform, TransformResponseInvalidQuery
from odf_protocol.metadata.schema import DataTypeOption, DataTypeUInt64
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import (
    EngineNote,
    EngineRun,
    load_note,
    noted_as_received,
    read_note,
    write_note,
)
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.jobs.transform import replay
from odf_workers.jobs.transform.chains import noted_as_computed
from odf_workers.jobs.transform.never_runs import CHANGES, STATE, WATERMARKS
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.verify import run as replays
from odf_workers.jobs.verify.run import run_verification

COPY = "select event_time, city, n * 10 as n from {}"
NOON = "2024-01-01T12:00:00Z"
LATER = "2024-01-02T12:00:00Z"


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


@pytest.fixture
def source(stores: Stores, tmp_path: Path) -> Dataset:
    made = root(stores, "cities")
    add_rows(stores, made, [(NOON, "a", 1)] * 2, tmp_path, at=10, watermark=NOON)
    return made


def computed(stores: Stores, inputs: list[Dataset], bench: Any, query: str = COPY) -> Dataset:
    names = [one.entry.alias.name for one in inputs]
    made = derivative(stores, "tenfold", inputs, query.format(*names))
    compute(stores, made, bench, at=100)
    return made


def compute(stores: Stores, dataset: Dataset, bench: Any, *, at: int) -> None:
    assert run_transform(stores, dataset, TransformPayload(), bench, now=moment(at)).outcome


def elsewhere(stores: Stores, dataset: Dataset, change: Any = lambda event: event) -> None:
    """The executions as another node made them: with other fields, and noted by nobody here."""
    blocks = dataset.blocks()
    first = next(at for at, one in enumerate(blocks) if isinstance(one.event, ExecuteTransform))
    reset(stores, dataset.entry, target=blocks[first - 1].hash)
    last: Any = None
    for block in blocks[first:]:
        event: Any = block.event
        if isinstance(event, ExecuteTransform):
            before = last.new_checkpoint if last else None
            event = replace(change(event), prev_checkpoint=before and before.physical_hash)
            last = event
        state = dataset.state()
        made, _ = author(state, [event], system_time=block.block.system_time)
        assert state.head is not None
        dataset.commit(made, expected=state.head)
    write_note(stores.objects, dataset.id, EngineNote())


def verdicts(stores: Stores, dataset: Dataset, bench: Any) -> tuple[bool, list[str], str]:
    """Whether it is valid, the verdict of each execution, oldest first, and all that was said."""
    answer = run_verification(stores, dataset, VerifyPayload(), bench, now=moment(900))
    [found] = answer.datasets
    report = found.report
    told = " ".join(one["message"] for one in (*report["notes"], *report["problems"]))
    return answer.ok, [one["replay"] for one in reversed(report["dataBlocks"])], told


def forged_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine write checkpoints with watermarks that no input had."""
    from odf_workers.engines.iteration import transform as module

    honest = module.write_checkpoint

    def forge(path: Path, after: Any) -> bool:
        marks = dict.fromkeys(after.watermarks, Instant.parse("2099-01-01T00:00:00Z"))
        return honest(path, dataclasses.replace(after, watermarks=marks))

    monkeypatch.setattr(module, "write_checkpoint", forge)


def foreign_checkpoint(stores: Stores, dataset: Dataset, content: bytes) -> Checkpoint:
    name = Multihash.of(content)
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.CHECKPOINT, name), [content])
    return Checkpoint(physical_hash=name, size=len(content))


def test_an_execution_without_the_checkpoint_that_is_written_here_is_reproduced(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    made = computed(stores, [source], bench)
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    assert made.state().last_execution.new_checkpoint is not None  # type: ignore[union-attr]
    elsewhere(stores, made, lambda event: replace(event, new_checkpoint=None))
    assert verdicts(stores, made, bench) == (True, ["reproduced"] * 2, "")


def test_an_execution_with_a_checkpoint_of_another_engine_is_reproduced(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    made = computed(stores, [source], bench)
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    other = foreign_checkpoint(stores, made, b"\x00\x01 a savepoint in a tar")
    elsewhere(stores, made, lambda event: replace(event, new_checkpoint=other))
    assert verdicts(stores, made, bench) == (True, ["reproduced"] * 2, "")


def test_an_execution_computed_from_a_forged_checkpoint_is_not_reproduced(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        forged_watermarks(patch)
        made = computed(stores, [source], bench)
        add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
        compute(stores, made, bench, at=120)
    write_note(stores.objects, made.id, EngineNote())
    first = next(one for one in made.blocks() if isinstance(one.event, ExecuteTransform))
    for after in (None, str(first.hash)):
        payload = VerifyPayload(after=after)
        answer = run_verification(stores, made, payload, bench, now=moment(900))
        [problem] = answer.datasets[0].report["problems"]
        assert (problem["block"], answer.ok) == (str(made.head()), False)
        assert "new_watermark" in problem["message"]


def test_an_execution_of_ours_computed_from_a_received_forged_checkpoint_is_not_reproduced(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        forged_watermarks(patch)
        made = computed(stores, [source], bench)
    write_note(stores.objects, made.id, EngineNote())
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    assert verdicts(stores, made, bench)[:2] == (False, ["reproduced", "not-reproduced"])


def test_state_that_only_another_node_has_made_is_made_again_or_proves_nothing(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = computed(stores, [source], bench)
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    noted = read_note(stores.objects, made.id)
    write_note(stores.objects, made.id, EngineNote())
    monkeypatch.setattr(replay, "holds_state", lambda _: True)
    assert verdicts(stores, made, bench)[:2] == (True, ["reproduced"] * 2)
    first = next(one for one in made.blocks() if isinstance(one.event, ExecuteTransform))
    later = VerifyPayload(after=str(first.hash))

    def found() -> tuple[bool, int, int]:
        [one] = run_verification(stores, made, later, bench, now=moment(900)).datasets
        return one.ok, one.replayed, one.not_verifiable

    assert found() == (True, 1, 0)
    asked: list[Multihash] = []
    honest = replays.replay

    def without_the_first(stores: Stores, dataset: Dataset, block: Any, *rest: Any, **more: Any):
        asked.append(block.hash)
        if block.hash == first.hash:
            raise replay.NotVerifiable("an input is gone")
        return honest(stores, dataset, block, *rest, **more)

    monkeypatch.setattr(replays, "replay", without_the_first)
    assert found() == (True, 0, 1)
    assert asked == [made.head(), first.hash]
    write_note(stores.objects, made.id, noted)
    assert found() == (True, 1, 0)
    assert asked[2:] == [made.head()]


def test_rows_and_watermarks_of_other_engines_are_held_to_their_query_all_the_same(
    stores: Stores, source: Dataset, bench: Any
) -> None:
    made = computed(stores, [source], bench)
    forged = Instant.parse("2030-01-01T00:00:00Z")
    elsewhere(stores, made, lambda event: replace(event, new_watermark=forged))
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (False, ["not-reproduced"])
    assert "new_watermark" in told


def test_a_checkpoint_of_our_own_engine_that_is_missing_is_a_difference(
    stores: Stores, source: Dataset, bench: Any
) -> None:
    made = computed(stores, [source], bench)
    noted = read_note(stores.objects, made.id)
    elsewhere(stores, made, lambda event: replace(event, new_checkpoint=None))
    write_note(stores.objects, made.id, noted)
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (False, ["not-reproduced"])
    assert "new_checkpoint" in told


REFUSALS = [
    "the query has an aggregation, whose rows depend on those of other iterations",
    "the function from_xml is not available in queries",
    "column `n`: an unsigned number is out of range",
    "column `t`: 1969-12-31T23:59:59.999999 has parts of a millisecond before 1970",
    "the query keeps one half of a correction",
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_query_that_is_refused_here_is_not_verifiable_if_another_engine_ran_it(
    stores: Stores, source: Dataset, bench: Any, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    made = computed(stores, [source], bench)
    noted = read_note(stores.objects, made.id)
    refused = TransformResponseInvalidQuery(message=refusal)
    monkeypatch.setattr(bench.engines.first, "execute_transform", lambda *_: refused, raising=False)
    write_note(stores.objects, made.id, EngineNote())
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (True, ["not-verifiable"])
    assert refusal in told
    write_note(stores.objects, made.id, noted)  # what this engine did, it has to do again
    assert verdicts(stores, made, bench)[:2] == (False, ["not-reproduced"])


def test_an_input_without_a_new_watermark_counts_differently_elsewhere(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    other = root(stores, "towns")
    add_rows(stores, other, [(NOON, "z", 9)], tmp_path, at=10, watermark=NOON)
    both = "select event_time, city, n from {} union all select event_time, city, n from {}"
    made = computed(stores, [source, other], bench, both)
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    newest = Instant.parse(LATER)

    def of_those_that_spoke(event: ExecuteTransform) -> ExecuteTransform:
        first = event.query_inputs[0].prev_block_hash is None
        return event if first else replace(event, new_watermark=newest)

    elsewhere(stores, made, of_those_that_spoke)
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (True, ["reproduced", "not-verifiable"])
    assert WATERMARKS in told


def test_rows_made_of_changes_by_another_engine_prove_nothing(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    source = root(stores, "cities")
    rows = [(NOON, "a", 1), (NOON, "a", 1), (NOON, "a", 2)]
    add_rows(stores, source, rows, tmp_path, at=10, ops=[0, 2, 3])
    made = computed(stores, [source], bench, "select op, event_time, city, n from {} where n < 2")

    def other_rows(event: ExecuteTransform) -> ExecuteTransform:
        assert event.new_data is not None
        logical = Multihash(event.new_data.logical_hash.code, bytes(32))
        return replace(event, new_data=replace(event.new_data, logical_hash=logical))

    elsewhere(stores, made, other_rows)
    answer = run_verification(
        stores, made, VerifyPayload(rows=False), bench, now=moment(900)
    ).datasets[0]
    assert answer.report["dataBlocks"][0]["replay"] == "not-verifiable"
    assert CHANGES in answer.report["notes"][0]["message"]


def test_intervals_of_other_engines_have_to_be_those_of_their_inputs(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    source = root(stores, "cities")
    add_rows(stores, source, [(NOON, "a", 1)] * 2, tmp_path, at=10, ops=[0, 1])
    made = computed(stores, [source], bench, "select op, event_time, city, n from {}")

    def wrong_offset(event: ExecuteTransform) -> ExecuteTransform:
        [item] = event.query_inputs
        return replace(event, query_inputs=(replace(item, new_offset=99),))

    elsewhere(stores, made, wrong_offset)
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (False, ["not-reproduced"])
    assert "query_inputs" in told


def test_state_of_this_engine_alone_proves_nothing(
    stores: Stores, source: Dataset, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.jobs.transform import never_runs as module

    made = computed(stores, [source], bench)
    forged = Instant.parse("2030-01-01T00:00:00Z")
    elsewhere(stores, made, lambda event: replace(event, new_watermark=forged))
    monkeypatch.setattr(module, "holds_state", lambda _: True)
    ok, found, told = verdicts(stores, made, bench)
    assert (ok, found) == (True, ["not-verifiable"])
    assert STATE in told


def test_unsigned_columns_of_derivatives_stay_what_the_engine_gives(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    query = "select event_time, city, arrow_cast(n, 'UInt64') as n from {}"
    made = computed(stores, [source], bench, query)
    schema = made.state().data_schema
    assert schema is not None
    [column] = [field for field in schema.fields if field.name == "n"]
    assert column.type == DataTypeOption(inner=DataTypeUInt64())
    elsewhere(stores, made)
    assert verdicts(stores, made, bench)[:2] == (True, ["reproduced"])


def test_a_derivative_that_has_them_signed_keeps_them_so(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    made = computed(stores, [source], bench, "select event_time, city, n from {}")
    from tests.workers.derivatives import commit, transform

    unsigned = "select event_time, city, arrow_cast(n, 'UInt64') as n from cities"
    commit(made, transform([source], unsigned), at=105)
    add_rows(stores, source, [(LATER, "b", 2)], tmp_path, at=110, watermark=LATER)
    compute(stores, made, bench, at=120)
    assert [row["n"] for row in read(stores, made)] == [1, 1, 2]
    assert len([one for one in made.blocks() if type(one.event).__name__ == "SetDataSchema"]) == 1


def test_received_executions_are_noted_as_those_of_another_engine(stores: Stores) -> None:
    dataset = root(stores, "noted")
    ours = EngineNote().with_run(EngineRun(3, "spark", "4.1"))
    received = ours.with_received(7)
    assert [run and run.version for run in map(received.at, (2, 3, 6, 7, 9))] == [
        None,
        "4.1",
        "4.1",
        None,
        None,
    ]
    assert load_note(received.dump()) == received
    assert received.with_received(9) == received
    assert received.with_received(2) == EngineNote()
    again = received.with_run(EngineRun(9, "spark", "4.1"))
    assert [run and run.version for run in map(again.at, (6, 8, 9))] == ["4.1", None, "4.1"]
    assert read_note(stores.objects, dataset.id) == EngineNote()


def test_what_does_not_count_is_not_noted(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    made = computed(stores, [source], bench)
    ours = read_note(stores.objects, made.id)
    blocks = made.blocks()[-1:]

    def lose() -> None:
        with noted_as_received(stores, made, blocks):
            assert read_note(stores.objects, made.id).at(blocks[0].sequence_number) is None
            raise Conflict("somebody else was first")

    with pytest.raises(Conflict):
        lose()
    assert read_note(stores.objects, made.id) == ours
    with noted_as_received(stores, made, blocks):
        pass
    assert read_note(stores.objects, made.id).at(blocks[0].sequence_number) is None


def test_a_push_that_loses_leaves_the_note_of_the_winner(
    stores: Stores, source: Dataset, bench: Any, tmp_path: Path
) -> None:
    made = computed(stores, [source], bench)
    *chain, last = made.blocks()
    stores.refs.move(made.id, expected=last.hash, new=chain[-1].hash, blocks=(), ended=())

    def lose() -> None:
        with noted_as_received(stores, made, [last]):
            with noted_as_received(stores, made, [last]):
                made.commit([last], expected=chain[-1].hash)
            raise Conflict("somebody else was first")

    with pytest.raises(Conflict):
        lose()
    assert read_note(stores.objects, made.id).at(last.sequence_number) is None


@pytest.mark.parametrize("worker_is_first", [True, False])
def test_a_received_block_is_not_noted_as_ours_if_a_worker_loses_against_it(
    stores: Stores, source: Dataset, bench: Any, worker_is_first: bool
) -> None:
    made = computed(stores, [source], bench)
    block, engine = made.block(made.head()), bench.engines.first
    known = EngineNote().with_run(EngineRun(1, engine.name, engine.version))
    received = known.with_received(block.sequence_number)
    write_note(stores.objects, made.id, known if worker_is_first else received)

    def lose() -> None:
        with noted_as_computed(stores, made, engine, block):
            if worker_is_first:
                write_note(stores.objects, made.id, received)
            raise RefConflict(block.hash, block.hash)

    with pytest.raises(RefConflict):
        lose()
    assert read_note(stores.objects, made.id) == received
