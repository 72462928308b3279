"""What becomes of a manifest before its first block is written."""

from __future__ import annotations

import pytest
from events import COLUMNS, INPUT, OTHER_INPUT, TIME, day, polling_source, push_source, sql
from refusals import refusing

from odf_protocol.chain.rules import author
from odf_protocol.chain.snapshot import MissingInputs, normalize_event, prepare
from odf_protocol.chain.state import EMPTY
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    Seed,
    SetInfo,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)

NEW = DatasetId(bytes([9] * 32))
KNOWN = {DatasetRef.parse("in1"): INPUT, DatasetRef.parse("acc/in2"): OTHER_INPUT}
RESOLVE = (KNOWN | {DatasetRef(id=one): one for one in KNOWN.values()}).get
QUERY = TransformSql(engine="spark", query="select 1")


def _input(text, alias=None):
    return TransformInput(dataset_ref=DatasetRef.parse(text), alias=alias)


def _prepare(*events, kind=DatasetKind.Root):
    snapshot = DatasetSnapshot(name=DatasetAlias.parse("new"), kind=kind, metadata=events)
    return prepare(snapshot, dataset_id=NEW, resolve=RESOLVE)


def _transform(*inputs, query=QUERY):
    return SetTransform(inputs=inputs, transform=query)


def test_a_prepared_manifest_can_be_authored():
    events = _prepare(
        _transform(_input("in1"), _input("acc/in2", "b")), COLUMNS, kind=DatasetKind.Derivative
    )
    blocks, state = author(EMPTY, events, system_time=TIME)
    assert [block.sequence_number for block in blocks] == [0, 1, 2]
    assert {block.block.system_time for block in blocks} == {TIME}
    assert state.head == blocks[-1].hash
    assert (state.dataset_id, state.kind) == (NEW, DatasetKind.Derivative)


def test_inputs_become_ids_and_keep_what_they_were_called_as_alias():
    inputs = (
        _input("acc/in2"),
        _input("in1", "mine"),
        TransformInput(dataset_ref=DatasetRef(id=INPUT)),
    )
    event = normalize_event(_transform(*inputs), RESOLVE)
    assert isinstance(event, SetTransform)
    assert [(item.dataset_ref.id, item.alias) for item in event.inputs] == [
        (OTHER_INPUT, "acc/in2"),
        (INPUT, "mine"),
        (INPUT, str(INPUT)),
    ]


def test_a_single_query_becomes_the_only_step_wherever_it_stands():
    steps = (SqlQueryStep(query="select 1"),)
    push, polling = _prepare(push_source(preprocess=QUERY), polling_source(preprocess=QUERY))[1:]
    for event in (push, polling):
        assert event.preprocess == TransformSql(engine="spark", queries=steps)


def test_all_unknown_inputs_of_all_transforms_are_named_once():
    unknown = str(DatasetId(bytes([8] * 32)))
    with pytest.raises(MissingInputs) as caught:
        _prepare(
            _transform(_input("no1"), _input("in1")),
            _transform(_input("acc/no2"), _input("no1"), _input(unknown)),
            kind=DatasetKind.Derivative,
        )
    assert caught.value.missing == ("no1", "acc/no2", unknown)


@pytest.mark.parametrize(
    "event",
    [
        Seed(dataset_id=NEW, dataset_kind=DatasetKind.Root),
        AddData(new_watermark=day(1)),
        ExecuteTransform(query_inputs=()),
        DisablePollingSource(),
        DisablePushSource(source_name="a"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_history_has_no_place_in_a_manifest(event):
    with refusing("InvalidSnapshot") as caught:
        _prepare(SetInfo(description="a"), event)
    assert caught.value.facts["event"] == type(event).__name__


def test_sources_and_transforms_belong_to_their_kind_of_dataset():
    for event in (push_source(), polling_source()):
        with refusing("InvalidSnapshot", match="root"):
            _prepare(event, kind=DatasetKind.Derivative)
    with refusing("InvalidSnapshot", match="derivative"):
        _prepare(_transform(_input("in1")))


@pytest.mark.parametrize(
    "query",
    [
        TransformSql(engine="spark", query="select 1", queries=(SqlQueryStep(query="select 2"),)),
        TransformSql(engine="spark", query="select 1", queries=()),
        sql((None, "select 1"), ("a", "select 2"), (None, "select 3")),
    ],
    ids=["both", "both, one empty", "two unnamed steps"],
)
def test_sql_that_can_be_read_in_two_ways_is_refused(query):
    with refusing("InvalidSnapshot"):
        _prepare(push_source(preprocess=query))


def test_faults_of_sql_speak_before_missing_inputs_and_those_before_the_kind():
    both = TransformSql(engine="spark", query="select 1", queries=(SqlQueryStep(query="2"),))
    with refusing("InvalidSnapshot", match="query"):
        _prepare(_transform(_input("no1"), query=both))
    with pytest.raises(MissingInputs):
        _prepare(_transform(_input("no1")))


def test_an_unnamed_step_that_is_not_the_last_fails_on_the_chain():
    events = _prepare(push_source(preprocess=sql((None, "select 1"), ("a", "select 2"))))
    with refusing("InvalidEvent"):
        author(EMPTY, events, system_time=TIME)


def test_other_events_pass_unchanged():
    info = SetInfo(description="a")
    assert _prepare(info, COLUMNS, push_source())[1:] == (info, COLUMNS, push_source())
    assert normalize_event(info, RESOLVE) is info
