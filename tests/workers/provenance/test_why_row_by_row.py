"""Why a row of a root, or of a query that computes row by row, is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from refusals import refusing
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
from tests.workers.provenance.asking import offsets, why, wrong_footers
from throwaway import throwaway_stores

from odf_protocol.metadata.events import AddPushSource, ExecuteTransform
from odf_protocol.metadata.sources import MergeStrategyLedger, ReadStepNdJson
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.jobs.transform.run import run_transform
from odf_workers.plan.transform import IterationLimits

DAY = "2024-01-0{}T00:00:00Z"
ODD = "select op, event_time, city, n * 10 as tens from cities where n % 2 = 1"
A, R, C, C_TO = range(4)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path, limits=IterationLimits(rows=100, bytes=1 << 30))


def computed(stores: Stores, bench: Any, dataset: Dataset, *, now: int = 1000) -> Dataset:
    run_transform(stores, dataset, TransformPayload(), bench, now=moment(now))
    return dataset


def test_a_row_of_a_root_names_its_block_its_source_and_how_it_was_merged(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    source = AddPushSource(
        source_name="posts", read=ReadStepNdJson(), merge=MergeStrategyLedger(primary_key=("city",))
    )
    commit(cities, source, at=5)
    add_rows(stores, cities, [(DAY.format(1), "A", 1), (DAY.format(1), "B", 2)], tmp_path, at=10)
    step = why(stores, bench, cities, 1)
    assert (step.row.values["city"], step.row.operation, step.row.stands) == ("B", "append", True)
    assert step.block.hash == str(cities.head())
    assert (step.how.kind, step.how.source, step.how.merge) == ("push", "posts", "Ledger")
    assert step.check.verdict == "recorded"
    assert step.where["n"].kind == "source"


def test_a_row_that_was_taken_back_says_by_which_row_and_that_row_says_what_it_took_back(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    one, two, other = (DAY.format(1), "A", 1), (DAY.format(1), "A", 2), (DAY.format(2), "B", 1)
    add_rows(stores, cities, [one, one, other], tmp_path, at=10)
    add_rows(stores, cities, [one, one, two, other], tmp_path, at=11, ops=[R, C, C_TO, R])
    fates = {}
    for at in range(7):
        row = why(stores, bench, cities, at).row
        fates[at] = (row.stands, row.undone_by, row.undoes)
    assert fates == {
        0: (False, 3, None),
        1: (False, 4, None),
        2: (False, 6, None),
        3: (False, None, 0),
        4: (False, None, 1),
        5: (True, None, None),
        6: (False, None, 2),
    }


def test_an_offset_that_does_not_exist_is_refused_with_those_that_do(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    with refusing("RowNotFound", match="it has no rows"):
        why(stores, bench, cities, 0)
    before = str(cities.head())
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    with refusing("RowNotFound", match="0 to 0"):
        why(stores, bench, cities, 1)
    with refusing("RowNotFound"):  # the row came later
        why(stores, bench, cities, 0, at=before)


def test_a_row_names_the_one_row_that_it_was_made_from_and_that_row_alone_gives_it(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    days = [(DAY.format(1 + n % 3), "AB"[n % 2], n) for n in range(20)]
    add_rows(stores, cities, days[:12], tmp_path, at=10, watermark=DAY.format(4))
    add_rows(stores, cities, days[12:], tmp_path, at=11)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    rows = read(stores, odd)
    assert len(rows) == 10
    for row in (rows[0], rows[4], rows[-1]):
        step = why(stores, bench, odd, row["offset"])
        assert offsets(step) == {"cities": [row["tens"] // 10]}
        assert (step.check.verdict, step.how.forms) == ("reproduced", ("row by row",))
    assert step.how.engine == "datafusion"
    assert step.how.queries == (ODD,)
    assert (step.block.inputs[0].start, step.block.inputs[0].end) == (0, 19)


def test_of_many_slices_only_those_are_read_that_can_have_the_row(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cities = root(stores, "cities")
    for n in range(1, 10):
        add_rows(stores, cities, [(DAY.format(n), "A", 2 * n + 1)], tmp_path, at=10 + n)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    opened: list[str] = []
    whole = Dataset.open_whole
    monkeypatch.setattr(
        Dataset,
        "open_whole",
        lambda self, kind, name: (
            opened.append(str(self.entry.alias.name)) or whole(self, kind, name)
        ),
    )
    assert offsets(why(stores, bench, odd, 4)) == {"cities": [4]}
    assert opened.count("cities") == 1


def test_a_wrong_bound_in_a_footer_costs_time_and_no_row(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(n), "A", n) for n in (1, 2, 3)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    assert wrong_footers(bench, cities, odd) == 2
    step = why(stores, bench, odd, 1, depth=2)
    assert (offsets(step), step.check.verdict) == ({"cities": [2]}, "reproduced")
    assert step.inputs[0].row.values["n"] == 3


def test_of_equal_rows_each_names_a_row_of_its_own(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)] * 5, tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    assert [offsets(why(stores, bench, odd, at))["cities"] for at in (0, 3)] == [[0], [3]]


def test_retractions_and_corrections_name_the_rows_that_changed(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    one, two, three = ((DAY.format(1), "A", n) for n in (1, 2, 3))
    add_rows(stores, cities, [one, three, three], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    ops = [C, C_TO, C, C_TO, R]
    add_rows(stores, cities, [one, three, three, two, three], tmp_path, at=11, ops=ops)
    computed(stores, bench, odd, now=2000)
    told = [(row["op"], row["tens"]) for row in read(stores, odd)]
    assert told == [(A, 10), (A, 30), (A, 30), (C, 10), (C_TO, 30), (R, 30), (R, 30)]
    found = {at: why(stores, bench, odd, at) for at in range(3, 7)}
    assert [offsets(step)["cities"] for step in found.values()] == [[3, 4], [3, 4], [5], [7]]
    assert {step.check.verdict for step in found.values()} == {"reproduced"}


def test_a_union_names_the_input_and_a_list_the_row_that_had_it(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    here, there = root(stores, "here"), root(stores, "there")
    add_rows(stores, here, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    add_rows(stores, there, [(DAY.format(1), "A", 2), (DAY.format(1), "A", 1)], tmp_path, at=11)
    both = "select event_time, city, n from here union all select event_time, city, n from there"
    union = computed(stores, bench, derivative(stores, "both", [here, there], both))
    rows = {row["offset"]: row["n"] for row in read(stores, union)}
    found = [offsets(why(stores, bench, union, at)) for at in rows]
    assert sorted(map(str, found)) == sorted(
        [
            "{'here': [0], 'there': []}",
            "{'here': [], 'there': [0]}",
            "{'here': [], 'there': [1]}",
        ]
    )
    lists = "select event_time, unnest([n, n * 100]) as part from there"
    unnested = computed(stores, bench, derivative(stores, "parts", [there], lists))
    parts = {row["part"]: row["offset"] for row in read(stores, unnested)}
    assert offsets(why(stores, bench, unnested, parts[200])) == {"there": [0]}
    assert offsets(why(stores, bench, unnested, parts[100])) == {"there": [1]}


def test_the_query_in_force_at_the_block_counts(stores: Stores, bench: Any, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    evolved = ODD.replace("* 10", "* 100")
    commit(odd, transform([cities], evolved), at=1500)
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=20)
    computed(stores, bench, odd, now=3000)
    first, second = why(stores, bench, odd, 0), why(stores, bench, odd, 1)
    assert (first.how.queries, second.how.queries) == ((ODD,), (evolved,))
    assert [step.check.verdict for step in (first, second)] == ["reproduced"] * 2
    assert [offsets(step)["cities"] for step in (first, second)] == [[0], [1]]


def test_the_depth_leads_on_to_the_root(stores: Stores, bench: Any, tmp_path: Path) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", n) for n in range(6)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    second = "select event_time, tens + 1 as more from odd where tens > 10"
    more = computed(stores, bench, derivative(stores, "more", [odd], second), now=2000)
    assert why(stores, bench, more, 0).inputs == ()
    step = why(stores, bench, more, 0, depth=3)
    (middle,) = step.inputs
    (last,) = middle.inputs
    assert (step.row.values["more"], middle.row.values["tens"], last.row.values["n"]) == (31, 30, 3)
    assert last.check.verdict == "recorded"


def test_no_further_row_is_followed_when_an_answer_has_its_steps_or_its_time(
    stores: Stores, bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    for limit in ("STEPS", "SECONDS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"odf_workers.jobs.provenance.run.{limit}", -1)
            step = why(stores, bench, odd, 0, depth=2)
        assert (step.inputs, step.is_cut, offsets(step)) == ((), True, {"cities": [0]})
    assert why(stores, bench, odd, 0, depth=2).is_cut is False


def test_of_an_input_that_the_reader_may_not_read_no_row_is_named_but_their_number(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    step = why(stores, bench, odd, 0, hidden=(cities,), depth=5)
    (hidden,) = step.why
    assert (hidden.dataset, hidden.alias, hidden.rows, hidden.count) == (str(cities.id), "", (), 1)
    assert "may not read" in str(hidden.unread)
    assert step.inputs == ()
    assert step.check.verdict == "reproduced"


def test_an_input_that_is_not_here_is_named_by_its_id(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    stores.registry.set_inputs(odd.id, [])
    stores.forget_dataset(cities.id)
    step = why(stores, bench, odd, 0)
    assert (step.why[0].dataset, step.check.verdict) == (str(cities.id), "unknown")
    assert step.block.inputs[0].end == 0


def test_of_an_input_that_was_reset_the_intervals_of_the_block_stay_and_no_newer_row_is_named(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    before = cities.state().head
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    assert before is not None
    reset(stores, cities.entry, target=before)
    add_rows(stores, cities, [(DAY.format(1), "A", 3)], tmp_path, at=20)
    step = why(stores, bench, odd, 0, depth=2)
    assert step.row.values["tens"] == 10
    assert offsets(step) == {"cities": []}
    assert step.check.verdict == "unknown"
    assert "history" in str(step.check.reason)
    assert (step.block.inputs[0].start, step.block.inputs[0].end) == (0, 0)
    assert step.inputs == ()


def test_of_a_row_that_an_engine_of_another_node_computed_its_query_and_intervals_are_told(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAY.format(1), "A", 1)], tmp_path, at=10)
    odd = computed(stores, bench, derivative(stores, "odd", [cities], ODD))
    flink = derivative(stores, "flink", [cities], ODD, engine="flink")
    blocks = sorted(odd.blocks(), key=lambda each: each.sequence_number)
    (data,) = (each.event.new_data for each in blocks if isinstance(each.event, ExecuteTransform))
    assert data is not None
    with odd.open_object(ObjectKind.DATA, data.physical_hash) as rows:
        key = ObjectKey(flink.id, ObjectKind.DATA, data.physical_hash)
        stores.objects.put(key, iter([rows.read()]))
    commit(flink, *(each.event for each in blocks if each.sequence_number > 1), at=1000)
    step = why(stores, bench, flink, 0)
    assert (step.how.engine, step.how.queries) == ("flink", (ODD,))
    assert (offsets(step), step.check.verdict) == ({"cities": []}, "unknown")
    assert "flink" in str(step.check.reason)
    assert (step.block.inputs[0].start, step.block.inputs[0].end) == (0, 0)
