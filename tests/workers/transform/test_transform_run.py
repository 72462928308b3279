"""Derivatives take in what is new, exactly once, whoever else is at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from refusals import refusing
from tests.workers.derivatives import (
    SCHEMA,
    add_rows,
    commit,
    created,
    derivative,
    moment,
    node_of,
    read,
    root,
    transform,
)
from throwaway import throwaway_stores

from odf_protocol.chain.rules import author
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.columns.column_names import DESCRIPTION_KEY, ColumnTexts, texts_in
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import (
    ExecuteTransform,
    MetadataEvent,
    SetDataSchema,
    SetInfo,
    SetVocab,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, TransformReceipt
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.following import Author, definition_hash
from odf_storage.stores.ports.values import Account, AccountId, Role, Visibility
from odf_workers.jobs.transform.replay import replay
from odf_workers.jobs.transform.run import run_transform
from odf_workers.plan.transform import IterationLimits

COPY = "select event_time, city, n * 10 as n from {}"
DAY = "2024-01-01T00:00:00Z"


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


def run(
    stores: Stores, dataset: Any, bench: Any, *, at: int = 1000, **more: Any
) -> TransformReceipt:
    return run_transform(
        stores, dataset, more.pop("payload", TransformPayload()), bench, now=moment(at), **more
    )


def test_rows_flow_through_and_only_the_new_ones(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    first = run(stores, tens, bench)
    assert (first.outcome, first.rows_added, first.rows_read) == ("updated", 1, 1)
    assert (first.engine, bool(first.engine_version)) == ("datafusion", True)
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", 2)], tmp_path, at=20)
    second = run(stores, tens, bench, at=2000)
    assert (second.offset_start, second.offset_end) == (1, 1)
    assert [(row["offset"], row["city"], row["n"]) for row in read(stores, tens)] == [
        (0, "A", 10),
        (1, "B", 20),
    ]
    assert run(stores, tens, bench).outcome == "up-to-date"


def test_schema_and_first_rows_come_with_one_move_of_the_head(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    before = len([m for m in stores.refs.moves(after=0) if m.dataset == tens.id])
    run(stores, tens, bench)
    assert len([m for m in stores.refs.moves(after=0) if m.dataset == tens.id]) == before + 1
    kinds = [type(block.event) for block in tens.blocks()]
    assert kinds[-2:] == [SetDataSchema, ExecuteTransform]


def test_empty_inputs_settle_the_schema(stores: Stores, bench: Any) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    receipt = run(stores, tens, bench)
    assert (receipt.outcome, receipt.rows_added, receipt.iterations) == ("updated", 0, 0)
    schema = tens.state().data_schema
    assert schema is not None
    assert [field.name for field in schema.fields][3:] == ["event_time", "city", "n"]
    assert run(stores, tens, bench).outcome == "up-to-date"


def test_a_backlog_ends_before_the_schema_of_an_input_that_came_later(
    stores: Stores, tmp_path: Path
) -> None:
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=2, bytes=1 << 30))
    cities, towns = root(stores, "cities"), root(stores, "towns", schema=None)
    for n in range(3):
        add_rows(stores, cities, [(DAY, "a", n)] * 2, tmp_path, at=10 + n)
    commit(towns, SetDataSchema(schema=from_arrow(SCHEMA)), at=50)
    add_rows(stores, towns, [(DAY, "b", 9)], tmp_path, at=50)
    select = "select event_time, city, n from "
    both = derivative(stores, "both", [cities, towns], f"{select}cities union all {select}towns")
    receipt = run(stores, both, bench)
    assert (receipt.iterations, receipt.rows_added) == (4, 7)
    executed = [block for block in both.blocks() if isinstance(block.event, ExecuteTransform)]
    assert [replay(stores, both, block, bench).differences for block in executed] == [()] * 4


def test_an_input_without_a_schema_is_waited_for(stores: Stores, bench: Any) -> None:
    cities = root(stores, "cities", schema=None)
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    receipt = run(stores, tens, bench)
    assert receipt.outcome == "up-to-date"
    assert receipt.reason == "input has no schema yet: cities"


def test_a_repeated_job_doubles_nothing_and_knows_its_receipt(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    first = run(stores, tens, bench)
    again = run(stores, tens, bench, repeated=True)
    assert len(read(stores, tens)) == 1
    assert (again.outcome, again.head, again.rows_added) == ("updated", first.head, 1)
    assert (again.logical_hash, again.blocks) == (first.logical_hash, first.blocks)


def test_receipts_tell_appends_retractions_and_corrections_apart(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    query = "select op, event_time, city, n from cities"
    same = derivative(stores, "same", [cities], query)
    when = "2024-01-01T00:00:00Z"
    rows = [(when, "A", 1), (when, "B", 2), (when, "A", 1), (when, "B", 2), (when, "B", 3)]
    add_rows(stores, cities, rows, tmp_path, at=10, ops=[0, 0, 1, 2, 3])
    receipt = run(stores, same, bench)
    counts = (receipt.rows_added, receipt.rows_retracted, receipt.rows_corrected)
    assert counts == (2, 1, 1)
    again = run(stores, same, bench, repeated=True)
    assert (again.rows_added, again.rows_retracted, again.rows_corrected) == counts


def test_a_large_backlog_is_taken_in_parts_with_the_same_rows(
    stores: Stores, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    for n in range(6):
        when = f"2024-01-0{n + 1}T00:00:00Z"
        add_rows(stores, cities, [(when, "A", n)] * 2, tmp_path, at=10 + n, watermark=when)
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=4, bytes=1 << 30))
    receipt = run(stores, tens, bench)
    assert (receipt.iterations, receipt.rows_added, receipt.has_more) == (3, 12, False)
    assert [row["n"] for row in read(stores, tens)] == [n * 10 for n in range(6) for _ in "ab"]
    marks = [b.event.new_watermark for b in tens.blocks() if isinstance(b.event, ExecuteTransform)]
    assert [str(mark)[:10] for mark in marks] == ["2024-01-02", "2024-01-04", "2024-01-06"]


def test_a_job_that_takes_long_leaves_the_rest_to_another(stores: Stores, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    for n in range(3):
        add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", n)], tmp_path, at=10 + n)
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    limits = IterationLimits(rows=1, bytes=1 << 30)
    bench = node_of(stores, tmp_path, limits=limits, seconds=0.0)
    found = [run(stores, tens, bench) for _ in range(3)]
    assert [(r.rows_added, r.has_more) for r in found] == [(1, True), (1, True), (1, False)]


def test_what_no_block_can_record_is_read_again_with_what_comes_next(
    stores: Stores, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    rows = [("2024-01-01T00:00:00Z", "A", n) for n in range(4)]
    for n, row in enumerate(rows):
        add_rows(stores, cities, [row], tmp_path, at=10 + n)
    many = derivative(
        stores, "many", [cities], "select event_time, city, n from cities where n >= 3"
    )
    run(stores, many, node_of(stores, tmp_path))
    few = derivative(stores, "few", [cities], "select event_time, n from cities where n > 9")
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=1, bytes=1 << 30))
    run(stores, few, bench)
    receipt = run(stores, few, bench)
    assert receipt.outcome == "up-to-date"
    assert "read again" in (receipt.reason or "")
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 10)], tmp_path, at=20)
    assert run(stores, few, bench).rows_added == 1
    assert [row["n"] for row in read(stores, many)] == [3]


def test_the_watermark_is_the_smallest_and_an_idle_input_keeps_its_own(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    one, two = root(stores, "one"), root(stores, "two")
    query = "select event_time, n from one union all select event_time, n from two"
    both = derivative(stores, "both", [one, two], query)
    add_rows(
        stores,
        one,
        [("2024-01-05T00:00:00Z", "A", 1)],
        tmp_path,
        at=10,
        watermark="2024-01-05T00:00:00Z",
    )
    assert run(stores, both, bench).watermark is None
    add_rows(
        stores,
        two,
        [("2024-01-02T00:00:00Z", "B", 2)],
        tmp_path,
        at=20,
        watermark="2024-01-02T00:00:00Z",
    )
    assert run(stores, both, bench, at=1001).watermark == "2024-01-02T00:00:00Z"
    add_rows(
        stores,
        two,
        [("2024-01-09T00:00:00Z", "B", 3)],
        tmp_path,
        at=30,
        watermark="2024-01-09T00:00:00Z",
    )
    assert run(stores, both, bench, at=1002).watermark == "2024-01-05T00:00:00Z"
    add_rows(stores, one, [("2024-01-03T00:00:00Z", "A", 4)], tmp_path, at=40)
    assert run(stores, both, bench, at=1003).watermark == "2024-01-05T00:00:00Z"


def test_a_rewritten_input_stops_the_derivative_unless_it_may_begin_anew(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    before = cities.head()
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    run(stores, tens, bench)
    stores.refs.move(cities.id, expected=cities.head(), new=before)
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", 2)], tmp_path, at=20)
    with refusing("InvalidInputInterval") as error:
        run(stores, tens, bench, at=1001)
    assert error.value.facts["input"] == "cities"
    assert [row["city"] for row in read(stores, tens)] == ["A"]
    receipt = run(stores, tens, bench, at=1002, payload=TransformPayload(reset_on_diverged=True))
    assert receipt.was_reset
    assert [(row["offset"], row["city"]) for row in read(stores, tens)] == [(0, "B")]


def test_a_wrong_recorded_offset_stops_the_derivative_before_rows_are_lost(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [(DAY, "A", 1)], tmp_path, at=10)
    run(stores, tens, bench)
    with_wrong_offset(stores, tens, 99)
    add_rows(stores, cities, [(DAY, "B", 2)], tmp_path, at=20)
    with refusing("InvalidInputInterval", match="offset 99 was recorded instead of its 0"):
        run(stores, tens, bench, at=1001)
    receipt = run(stores, tens, bench, at=1002, payload=TransformPayload(reset_on_diverged=True))
    assert receipt.was_reset
    assert [row["city"] for row in read(stores, tens)] == ["A", "B"]


def with_wrong_offset(stores: Stores, dataset: Dataset, offset: int) -> None:
    """Replace the newest execution by one that records another last offset of its input."""
    block = dataset.block(dataset.head())
    assert isinstance(block.event, ExecuteTransform)
    assert block.prev is not None
    [item] = block.event.query_inputs
    event = replace(block.event, query_inputs=(replace(item, new_offset=offset),))
    reset(stores, dataset.entry, target=block.prev)
    blocks, _ = author(dataset.state(), [event], system_time=block.block.system_time)
    dataset.commit(blocks, expected=block.prev)


def test_an_input_that_is_rewritten_again_meanwhile_makes_it_begin_anew_again(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=1))
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    before, real, moments = (
        cities.head(),
        bench.engines.first.execute_transform,
        iter(range(20, 99)),
    )

    def rewrite(*names: str) -> None:
        stores.refs.move(cities.id, expected=cities.head(), new=before)
        for name in names:
            row = ("2024-01-02T00:00:00Z", name, 2)
            add_rows(stores, cities, [row], tmp_path, at=next(moments))

    def rewritten_meanwhile(request: Any, *more: Any) -> Any:
        monkeypatch.setattr(bench.engines.first, "execute_transform", real, raising=False)
        rewrite("C", "D")
        return real(request, *more)

    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    run(stores, tens, bench)
    rewrite("B", "B")
    monkeypatch.setattr(
        bench.engines.first, "execute_transform", rewritten_meanwhile, raising=False
    )
    receipt = run(stores, tens, bench, at=1002, payload=TransformPayload(reset_on_diverged=True))
    assert receipt.was_reset
    assert [(row["offset"], row["city"]) for row in read(stores, tens)] == [(0, "C"), (1, "D")]


def test_the_loser_of_a_race_plans_again(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    real, raced = stores.refs.move, []

    def race(dataset: Any, **given: Any) -> None:
        if dataset == tens.id and not raced:
            raced.append(True)
            run(stores, tens, bench)
        real(dataset, **given)

    monkeypatch.setattr(stores.refs, "move", race)
    receipt = run(stores, tens, bench)
    assert len(read(stores, tens)) == 1
    assert receipt.outcome == "up-to-date"


def test_a_race_that_is_always_lost_ends(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    head = tens.head()

    def lost(*_: Any, **__: Any) -> None:
        raise RefConflict(head, head)

    monkeypatch.setattr(stores.refs, "move", lost)
    with pytest.raises(RefConflict):
        run(stores, tens, bench)


def test_a_changed_query_goes_on_where_the_old_one_ended(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    run(stores, tens, bench)
    wider = "select event_time, city, n * 100 as n, n as original from cities"
    commit(tens, said_of(tens, "n"), at=1400)
    commit(tens, transform([cities], wider), at=1500)
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", 2)], tmp_path, at=20)
    run(stores, tens, bench, at=2000)
    schema = tens.state().data_schema
    assert schema is not None
    assert [field.name for field in schema.fields][-1] == "original"
    assert texts_in(schema) == {"n": ColumnTexts("how many")}
    rows = read(stores, tens)
    assert [(row["n"], row.get("original")) for row in rows] == [(10, None), (200, 2)]


def test_an_added_input_is_read_from_its_beginning(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    one, two = root(stores, "one"), root(stores, "two")
    add_rows(stores, one, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    add_rows(stores, two, [("2024-01-01T00:00:00Z", "B", 2)], tmp_path, at=11)
    some = derivative(stores, "some", [one], "select event_time, city, n from one")
    run(stores, some, bench)
    query = "select event_time, city, n from two union all select event_time, city, n from one"
    commit(some, transform([two, one], query), at=1500)
    run(stores, some, bench, at=2000)
    assert [row["city"] for row in read(stores, some)] == ["A", "B"]


def widened(stores: Stores, tmp_path: Path, *, behind: int) -> Dataset:
    """A root that gets one more column between its first row and the one `behind` it."""
    import pyarrow as pa
    from tests.workers.derivatives import SCHEMA

    from odf_protocol.columns.arrow_schema import from_arrow

    cities = root(stores, "cities")
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    wider = SCHEMA.append(pa.field("extra", pa.string()))
    commit(cities, SetDataSchema(schema=from_arrow(wider)), at=11)
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", behind)], tmp_path, at=12)
    return cities


def test_an_iteration_ends_where_an_input_gets_more_columns(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = widened(stores, tmp_path, behind=2)
    all_of = derivative(stores, "all-of", [cities], "select event_time, city, n from cities")
    receipt = run(stores, all_of, bench)
    assert (receipt.iterations, receipt.rows_added) == (2, 2)


def test_rows_that_leave_nothing_before_a_change_of_columns_are_read_with_those_behind_it(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = widened(stores, tmp_path, behind=20)
    large = derivative(stores, "large", [cities], "select event_time, n from cities where n > 9")
    assert run(stores, large, bench).rows_added == 1


@pytest.mark.parametrize("between", [SetInfo(description="cities"), SetVocab()])
def test_metadata_between_rows_is_no_border_unless_it_changes_columns(
    stores: Stores, bench: Any, tmp_path: Path, between: MetadataEvent
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    commit(cities, between, at=11)
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", 2)], tmp_path, at=12)
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    receipt = run(stores, tens, bench)
    assert (receipt.iterations, receipt.rows_added) == (1, 2)


def test_metadata_of_an_input_causes_no_run(stores: Stores, bench: Any, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    run(stores, tens, bench)
    commit(cities, SetInfo(description="cities"), at=20)
    assert run(stores, tens, bench).outcome == "up-to-date"
    commit(cities, said_of(cities, "n"), at=30)
    assert run(stores, tens, bench).outcome == "up-to-date"


def said_of(dataset: Dataset, column: str) -> SetDataSchema:
    """The columns of the dataset, where one has a description."""
    schema = dataset.state().data_schema
    assert schema is not None
    text = Attributes.of({DESCRIPTION_KEY: "how many"})
    return SetDataSchema(
        schema=replace(
            schema,
            fields=tuple(
                replace(field, extra=text) if field.name == column else field
                for field in schema.fields
            ),
        )
    )


def test_derivatives_of_derivatives_meet_again(stores: Stores, bench: Any, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    left = derivative(stores, "left", [cities], COPY.format("cities"))
    right = derivative(stores, "right", [cities], "select event_time, city, -n as n from cities")
    query = "select event_time, city, n from {0} union all select event_time, city, n from {1}"
    both = derivative(stores, "both", [left, right], query.format('"left"', '"right"'))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    for dataset in (left, right, both):
        run(stores, dataset, bench)
    assert sorted(row["n"] for row in read(stores, both)) == [-1, 10]


def test_a_dataset_without_a_transform_is_refused(stores: Stores, bench: Any) -> None:
    from odf_protocol.metadata.events import DatasetKind
    from odf_workers.plan.transform import TransformNotDefined

    empty = created(stores, "empty", kind=DatasetKind.Derivative)
    for dataset in (empty, root(stores, "cities")):
        with pytest.raises(TransformNotDefined):
            run(stores, dataset, bench)


def test_a_long_chain_is_read_no_further_than_one_iteration_goes(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import odf_storage.datasets.dataset.state_cache
    from odf_workers.jobs.transform.chains import input_chains

    monkeypatch.setattr(odf_storage.datasets.dataset.state_cache, "PAGE", 2)
    cities = root(stores, "cities")
    for n in range(8):
        add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", n)], tmp_path, at=10 + n)
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    limits = IterationLimits(rows=2, bytes=1 << 30)
    (chain,) = input_chains([(cities, "cities")], tens.state(), limits)
    assert (chain.complete, len(chain.blocks)) == (False, 6)
    receipt = run(stores, tens, node_of(stores, tmp_path, limits=limits))
    assert (receipt.iterations, receipt.rows_added) == (4, 8)
    assert [row["n"] for row in read(stores, tens)] == [n * 10 for n in range(8)]


def test_what_the_author_may_not_read_is_not_here_for_the_definition(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    """Looked at when it runs, since jobs wait and definitions and rights change meanwhile."""
    mallory = Account(AccountId("did:odf:mallory"), "mallory")
    stores.accounts.put_account(mallory)
    cities = root(stores, "cities")
    tens = derivative(stores, "tens", [cities], COPY.format("cities"))
    add_rows(stores, cities, [("2024-01-01T00:00:00Z", "A", 1)], tmp_path, at=10)
    transform = tens.state().transform
    assert transform is not None
    stores.definitions.put(tens.id, definition_hash(transform), Author(mallory.id))
    with refusing("InputsNotHere") as refused:
        run(stores, tens, bench)
    assert refused.value.facts["missing"] == [str(cities.id)]
    assert read(stores, tens) == []
    assert (
        run(stores, tens, bench, payload=TransformPayload(everything_is_read=True)).rows_added == 1
    )
    add_rows(stores, cities, [("2024-01-02T00:00:00Z", "B", 2)], tmp_path, at=20)
    stores.roles.put(cities.id, mallory.id, Role.READER)
    assert run(stores, tens, bench, at=2000).rows_added == 1
    add_rows(stores, cities, [("2024-01-03T00:00:00Z", "C", 3)], tmp_path, at=30)
    stores.roles.remove(cities.id, mallory.id)
    with refusing("InputsNotHere"):
        run(stores, tens, bench, at=3000)
    stores.registry.set_visibility(cities.id, Visibility.PUBLIC)
    assert run(stores, tens, bench, at=4000).rows_added == 1
