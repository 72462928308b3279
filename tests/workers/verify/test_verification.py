"""Verification with replays: forged derivatives are found and named, sound ones are noted."""

from __future__ import annotations

import io
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from known import document
from msgspec.structs import replace
from tests.workers.derivatives import (
    add_rows,
    commit,
    derivative,
    moment,
    node_of,
    read,
    root,
    transform,
)
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.metadata.events import (
    AddData,
    ExecuteTransform,
    HashedBlock,
    SetInfo,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.job_payloads.verify_job import (
    VerifyAnswer,
    VerifyPayload,
    answer_of,
    to_json,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import keep_metadata_only, reset
from odf_storage.datasets.verify.note import read_note
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.port.port import QueryTooSlow
from odf_workers.jobs.transform.replay import deprecate
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.upkeep.compact import run_compaction
from odf_workers.jobs.verify.run import run_verification
from odf_workers.runtime.progress import JobLost, JobProgress
from odf_workers.slices.write import described, write_batches

COPY = "select event_time, city, n * 10 as n from {}"
NOW = moment(5000)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


@pytest.fixture
def source(stores: Stores, tmp_path: Path) -> Dataset:
    made = root(stores, "cities")
    add_rows(stores, made, [("2024-01-01T00:00:00Z", "a", 1)] * 2, tmp_path, at=10)
    return made


@pytest.fixture
def made(stores: Stores, source: Dataset, bench: Any, tmp_path: Path) -> Dataset:
    """A derivative that executed twice."""
    made = derivative(stores, "tenfold", [source], COPY.format("cities"))
    compute(stores, made, bench, at=100)
    add_rows(stores, source, [("2024-01-02T00:00:00Z", "b", 2)] * 3, tmp_path, at=110)
    compute(stores, made, bench, at=120)
    return made


def compute(stores: Stores, dataset: Dataset, bench: Any, *, at: int) -> None:
    assert run_transform(stores, dataset, TransformPayload(), bench, now=moment(at)).outcome


def verified(stores: Stores, dataset: Dataset, bench: Any, **asked: Any) -> VerifyAnswer:
    return run_verification(stores, dataset, VerifyPayload(**asked), bench, now=NOW)


def problems(answer: VerifyAnswer) -> list[tuple[str, str, int]]:
    return [
        (one.alias, problem["kind"], problem["sequenceNumber"])
        for one in answer.datasets
        for problem in one.report.get("problems", ())
    ]


def executions(dataset: Dataset) -> list[HashedBlock]:
    return [b for b in dataset.blocks() if isinstance(b.event, ExecuteTransform)]


def forged(
    stores: Stores, dataset: Dataset, folder: Path, change: Any, *, event: Any = None
) -> HashedBlock:
    """The newest execution again with other rows, and a block with the right hashes of them."""
    block = executions(dataset)[-1]
    recorded = event or block.event
    assert isinstance(recorded, ExecuteTransform)
    assert recorded.new_data is not None
    with dataset.open_object(ObjectKind.DATA, recorded.new_data.physical_hash) as stream:
        rows = change(pq.read_table(io.BytesIO(stream.read())))
    path = folder / "forged.parquet"
    write_batches(iter(rows.combine_chunks().to_batches()), rows.schema, path)
    start = recorded.new_data.offset_interval.start
    data = described(path, start)
    stores.objects.put(ObjectKey(dataset.id, ObjectKind.DATA, data.physical_hash), chunks(path))
    assert block.prev is not None
    reset(stores, dataset.entry, target=block.prev)
    blocks, _ = author(
        dataset.state(),
        [replace(recorded, new_data=data)],
        system_time=block.block.system_time,
    )
    dataset.commit(blocks, expected=block.prev)
    return blocks[-1]


def another_number(rows: pa.Table) -> pa.Table:
    column = pa.array([999, *rows["n"].to_pylist()[1:]], pa.int64())
    return rows.set_column(rows.schema.get_field_index("n"), rows.schema.field("n"), column)


def without_first(rows: pa.Table) -> pa.Table:
    left = rows.slice(1)
    offsets = pa.array([n - 1 for n in left["offset"].to_pylist()], pa.int64())
    return left.set_column(0, rows.schema.field("offset"), offsets)


def other_order(rows: pa.Table) -> pa.Table:
    rows = another_number(rows)
    place = rows.schema.get_field_index("n")
    return rows.set_column(
        place, rows.schema.field("n"), pa.array(rows["n"].to_pylist()[::-1], pa.int64())
    )


# --- sound ----------------------------------------------------------------------------------


def test_a_sound_derivative_is_reproduced_block_by_block_and_noted(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    answer = verified(stores, made, bench)
    assert answer.ok
    [found] = answer.datasets
    assert (found.replayed, found.not_verifiable) == (2, 0)
    assert [b["replay"] for b in found.report["dataBlocks"]] == ["reproduced"] * 2
    note = read_note(stores.objects, made.id)
    assert note is not None
    assert (note.ok, note.block, note.at) == (True, str(made.head()), str(NOW))
    assert note.engines == found.engines
    assert note.engines[0].startswith("datafusion ")
    assert answer_of(to_json(answer)) == answer


def test_how_many_executions_were_made_again_is_told_meanwhile(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    class Seen(JobProgress):
        def step(self, done: int, total: int) -> None:
            super().step(done, total)
            steps.append(self.told())

    steps: list[Any] = []
    context = replaced(bench, job_progress=Seen())
    answer = run_verification(stores, made, VerifyPayload(), context, now=NOW)
    objects = answer.datasets[0].report["objects"]
    assert objects
    assert {"phase": "verify", "done": objects, "total": objects} in steps
    assert [each for each in steps if each["phase"] == "execute"][-1:] == [
        {"phase": "execute", "done": 2, "total": 2}
    ]


def test_a_verification_that_was_cancelled_ends(stores: Stores, made: Dataset, bench: Any) -> None:
    class Cancelled(JobProgress):
        def step(self, done: int, total: int) -> None:
            if total:
                self.lose()
            super().step(done, total)

    context = replaced(bench, job_progress=Cancelled())
    with pytest.raises(JobLost):
        run_verification(stores, made, VerifyPayload(), context, now=NOW)
    assert read_note(stores.objects, made.id) is None


def test_less_is_looked_at_when_less_is_asked_for_and_nothing_noted(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    first = executions(made)[0]
    answer = verified(stores, made, bench, after=str(first.hash))
    assert [b["replay"] for b in answer.datasets[0].report["dataBlocks"]] == ["reproduced"]
    assert verified(stores, made, bench, replay=False).datasets[0].replayed == 0
    assert read_note(stores.objects, made.id) is None


def test_each_execution_is_made_again_with_the_transform_of_its_time(
    stores: Stores, source: Dataset, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    commit(made, transform([source], "select event_time, city, n + 1 as n from cities"), at=130)
    add_rows(stores, source, [("2024-01-03T00:00:00Z", "c", 3)], tmp_path, at=140)
    compute(stores, made, bench, at=150)
    assert [row["n"] for row in read(stores, made)] == [10, 10, 20, 20, 20, 4]
    answer = verified(stores, made, bench)
    assert answer.ok
    assert answer.datasets[0].replayed == 3


# --- tampered with --------------------------------------------------------------------------


@pytest.mark.parametrize("change", [another_number, without_first, other_order])
def test_a_forged_block_with_the_right_hashes_of_wrong_rows_is_found_by_replay_only(
    stores: Stores, made: Dataset, bench: Any, tmp_path: Path, change: Any
) -> None:
    block = forged(stores, made, tmp_path, change)
    assert verified(stores, made, bench, replay=False).ok
    answer = verified(stores, made, bench)
    assert problems(answer) == [("kamu/tenfold", "DataNotReproducible", block.sequence_number)]
    [problem] = answer.datasets[0].report["problems"]
    assert problem["block"] == str(block.hash)
    assert problem["expected"]["newData"] != problem["actual"]["newData"]
    assert "newData" in problem["message"] or "new_data" in problem["message"]
    note = read_note(stores.objects, made.id)
    assert note is not None
    assert (note.ok, note.first_problem) == (False, f"DataNotReproducible #{block.sequence_number}")


def test_a_changed_row_in_a_stored_slice_is_named_by_its_block(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    block = executions(made)[0]
    data = block.event.new_data  # type: ignore[union-attr]
    assert data is not None
    kept = contents(stores)
    key = ObjectKey(made.id, ObjectKind.DATA, data.physical_hash)
    kept[key] = kept[key].replace(b"a", b"z")
    answer = verified(stores, made, bench, replay=False)
    assert problems(answer) == [("kamu/tenfold", "DataDoesNotMatchMetadata", block.sequence_number)]
    assert answer.datasets[0].report["problems"][0]["block"] == str(block.hash)


def contents(stores: Stores) -> dict[ObjectKey, bytes]:
    """The objects themselves, behind the back of the store."""
    objects: Any = stores.objects
    found: dict[ObjectKey, bytes] = objects._objects
    return found


def test_swapped_slices_are_found_in_both_blocks(
    stores: Stores, source: Dataset, made: Dataset, bench: Any
) -> None:
    kept = contents(stores)
    blocks = [block for block in source.blocks() if isinstance(block.event, AddData)]
    one, other = (
        ObjectKey(source.id, ObjectKind.DATA, block.event.new_data.physical_hash)  # type: ignore[union-attr]
        for block in blocks
    )
    kept[one], kept[other] = kept[other], kept[one]
    answer = verified(stores, made, bench, inputs=(str(source.id),))
    numbers = [block.sequence_number for block in reversed(blocks)]
    found = [one for one in problems(answer) if one[0] == "kamu/cities"]
    assert found == [("kamu/cities", "DataDoesNotMatchMetadata", n) for n in numbers]


WRITTEN_ANEW = [
    case
    for case in document("ingest/verify")["cases"]
    if case["expect"].get("error", {}).get("kind") == "DataNotReproducible"
]


@pytest.mark.parametrize("case", WRITTEN_ANEW, ids=lambda case: case["title"])
def test_the_known_answer_for_a_slice_and_its_block_written_anew(
    case: dict[str, Any], stores: Stores, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    block = forged(stores, made, tmp_path, without_first)
    [(_, kind, number)] = problems(verified(stores, made, bench))
    assert kind == case["expect"]["error"]["kind"]
    assert number == block.sequence_number


# --- what cannot be told --------------------------------------------------------------------


def test_a_compacted_input_makes_executions_not_verifiable_but_not_wrong(
    stores: Stores, source: Dataset, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    receipt = run_compaction(source, CompactPayload(), stores, tmp_path, attempts=1)
    assert receipt.outcome == "updated"
    answer = verified(stores, made, bench)
    assert answer.ok
    [found] = answer.datasets
    assert (found.replayed, found.not_verifiable) == (0, 2)
    assert {n["kind"] for n in found.report["notes"]} == {"NotVerifiable"}
    assert [b["replay"] for b in found.report["dataBlocks"]] == ["not-verifiable"] * 2


def test_an_input_that_is_gone_makes_executions_not_verifiable(
    stores: Stores, source: Dataset, made: Dataset, bench: Any
) -> None:
    stores.forget_dataset(source.id)
    [found] = verified(stores, made, bench).datasets
    assert (found.ok, found.not_verifiable) == (True, 2)


def test_a_broken_chain_is_not_replayed(
    stores: Stores, source: Dataset, made: Dataset, bench: Any
) -> None:
    head = made.block(made.head())
    stores.objects.delete(ObjectKey(made.id, ObjectKind.BLOCK, head.hash))
    answer = verified(stores, made, bench)
    assert not answer.ok
    assert problems(answer)[0][1] == "BlockNotFound"
    assert answer.datasets[0].replayed == 0


# --- inputs too -----------------------------------------------------------------------------


def test_inputs_are_looked_at_first_and_one_that_fails_does_not_stop_the_others(
    stores: Stores, source: Dataset, made: Dataset, bench: Any, tmp_path: Path
) -> None:
    other = root(stores, "other")
    stores.forget_dataset(other.id)
    answer = verified(stores, made, bench, inputs=(str(other.id), str(source.id)))
    assert [one.ok for one in answer.datasets] == [False, True, True]
    assert answer.datasets[0].error is not None
    assert answer.datasets[0].error.startswith("DatasetNotFound")
    assert [one.alias for one in answer.datasets[1:]] == ["kamu/cities", "kamu/tenfold"]
    assert not answer.ok
    assert read_note(stores.objects, source.id) is not None


def test_a_note_stays_with_the_block_it_was_made_for(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    verified(stores, made, bench)
    validated = made.head()
    commit(made, SetInfo(description="later"), at=200)
    note = read_note(stores.objects, made.id)
    assert note is not None
    assert note.block == str(validated) != str(made.head())
    keep_metadata_only(stores, made.entry)
    verified(stores, made, bench)
    again = read_note(stores.objects, made.id)
    assert again is not None
    assert (again.block, again.replayed) == (str(made.head()), 0)


# --- work that is cut short, engines that fail ----------------------------------------------


class Failing:
    """An engine whose work never comes to a result."""

    name, version = "datafusion", "0"

    def __init__(self, job_progress: JobProgress | None = None) -> None:
        self._meter = job_progress

    def execute_transform(self, _request: Any, _listener: Any) -> TransformResponseInternalError:
        if self._meter is not None:
            self._meter.lose()
            self._meter.check()
        return TransformResponseInternalError(message="out of memory")


def test_an_engine_that_fails_proves_nothing_against_a_block(
    stores: Stores, made: Dataset, bench: Any
) -> None:
    failing = replaced(bench, engines=replaced(bench.engines, first=Failing()))
    [found] = verified(stores, made, failing).datasets
    assert (found.ok, found.replayed, found.not_verifiable) == (True, 0, 2)
    assert "out of memory" in found.report["notes"][0]["message"]


def test_a_query_that_fails_cannot_have_given_what_was_recorded(
    stores: Stores, made: Dataset, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = TransformResponseInvalidQuery(message="no column n")
    monkeypatch.setattr(bench.engines.first, "execute_transform", lambda *_: wrong, raising=False)
    answer = verified(stores, made, bench)
    assert [kind for _, kind, _ in problems(answer)] == ["DataNotReproducible"] * 2
    assert "no column n" in answer.datasets[0].report["problems"][0]["message"]


def test_a_query_that_did_not_end_in_its_time_proves_nothing(
    stores: Stores, made: Dataset, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = TransformResponseInvalidQuery(message=QueryTooSlow(0.5).message)
    monkeypatch.setattr(bench.engines.first, "execute_transform", lambda *_: slow, raising=False)
    [found] = verified(stores, made, bench).datasets
    assert (found.ok, found.replayed, found.not_verifiable) == (True, 0, 2)
    assert "did not end within 0.5 seconds" in found.report["notes"][0]["message"]


def test_a_verification_that_is_cancelled_ends_without_a_verdict(
    stores: Stores, source: Dataset, made: Dataset, bench: Any
) -> None:
    bench = replaced(bench, engines=replaced(bench.engines, first=Failing(bench.job_progress)))
    with pytest.raises(JobLost):
        verified(stores, made, bench)
    above = derivative(stores, "above", [made], "select event_time, n from tenfold")
    with pytest.raises(JobLost):
        verified(stores, above, bench, inputs=(str(made.id),))
    assert read_note(stores.objects, made.id) is None
    with pytest.raises(JobLost):
        deprecate(stores, made, bench)
