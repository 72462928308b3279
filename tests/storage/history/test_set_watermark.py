"""A watermark by hand only goes forward, on roots of this node only."""

from __future__ import annotations

from typing import Any

import pytest
from chain_maker import NOON, entry, linked
from known import document
from msgspec.structs import replace
from refusals import refusing
from upkeep_parts import begun, dataset_of, put_slice

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DatasetKind, SourceState
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import set_watermark
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.following import Mirror

CASES = [c for c in document("ingest/watermark")["cases"] if c["given"]["operation"] == "set"]
NAMES = {"updated": "Updated", "up-to-date": "UpToDate"}
MAY = Instant.parse("2026-05-01T00:00:00Z")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_watermark_is_set_as_the_known_answers_say(stores: Stores, case: dict[str, Any]) -> None:
    given = case["given"]
    made, blocks = begun(stores)
    if given["dataset_kind"] == "Derivative":
        made = entry(kind=DatasetKind.Derivative)
    if (prior := given.get("prior")) is not None:
        mark, state = prior.get("watermark"), prior.get("source_state")
        event = AddData(
            new_data=put_slice(stores, made, 0),
            new_watermark=mark and Instant.parse(mark),
            new_source_state=state
            and SourceState(source_name="default", kind="odf/etag", value=state),
        )
        dataset_of(stores, made).commit([linked(blocks[-1], event)], expected=blocks[-1].hash)
    if given.get("has_pull_alias"):
        stores.mirrors.put(Mirror(dataset=made.id, remote="http://other.test/ds"))
    results = []
    for step in given["steps"]:
        try:
            receipt = set_watermark(stores, made, Instant.parse(step), now=NOON)
            results.append(NAMES[receipt.outcome])
        except BadInput as refused:
            results.append(refused.code)
    assert results == case["expect"]["results"]


def test_where_the_source_left_off_is_carried_over(stores: Stores) -> None:
    made, blocks = begun(stores)
    state = SourceState(source_name="default", kind="odf/etag", value="1")
    event = AddData(new_data=put_slice(stores, made, 0), new_source_state=state)
    dataset_of(stores, made).commit([linked(blocks[-1], event)], expected=blocks[-1].hash)
    set_watermark(stores, made, MAY, now=NOON)
    found = dataset_of(stores, made).state()
    assert (found.watermark, found.last_source_state, found.last_offset) == (MAY, state, 2)
    assert found.last_add_data == replace(event, prev_offset=2, new_data=None, new_watermark=MAY)


def test_a_clock_that_is_behind_the_chain_does_no_harm(stores: Stores) -> None:
    made, _ = begun(stores)
    set_watermark(stores, made, MAY, now=Instant.parse("1999-01-01T00:00:00Z"))
    assert dataset_of(stores, made).state().system_time == NOON


def test_what_no_later_step_takes_back_is_told(stores: Stores) -> None:
    made, _ = begun(stores)
    told = [
        set_watermark(stores, made, Instant.parse(day), now=NOON).warnings
        for day in (str(NOON), str(NOON), "2000-01-01T00:00:00Z", "2199-01-01T00:00:00Z")
    ]
    assert [len(each) for each in told] == [0, 0, 1, 1]


def test_a_dry_run_says_what_would_be_and_does_nothing(stores: Stores) -> None:
    made, blocks = begun(stores)
    receipt = set_watermark(stores, made, MAY, now=NOON, dry_run=True)
    assert (receipt.outcome, receipt.head, receipt.watermark) == ("updated", None, str(MAY))
    assert dataset_of(stores, made).head() == blocks[-1].hash


def test_derivatives_compute_theirs(stores: Stores) -> None:
    with refusing("IsDerivative"):
        set_watermark(stores, entry(kind=DatasetKind.Derivative), MAY, now=NOON)


def test_whoever_was_first_is_gone_on_from(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    made, blocks = begun(stores)
    move = stores.refs.move

    def late(*args: object, **more: object) -> None:
        monkeypatch.setattr(stores.refs, "move", move)
        raise RefConflict(blocks[-1].hash, blocks[-1].hash)

    monkeypatch.setattr(stores.refs, "move", late)
    assert set_watermark(stores, made, MAY, now=NOON).outcome == "updated"
