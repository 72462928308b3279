"""Which blocks may follow a chain, sentence by sentence."""

from __future__ import annotations

from typing import get_args

import pytest
from events import (
    COLUMNS,
    DERIVATIVE,
    INPUT,
    OTHER_INPUT,
    ROOT,
    TIME,
    add_data,
    block_after,
    chain,
    checkpoint,
    consumed,
    data_slice,
    day,
    execution,
    made_up,
    polling_source,
    push_source,
    source_state,
    sql,
    then,
    transform,
)
from refusals import refusing

from odf_protocol.chain.definition_rules import MAX_PUSH_SOURCES
from odf_protocol.chain.rules import RULES, append, append_received, fold, report
from odf_protocol.chain.state import CHANGES, EMPTY, NOT_UNDERSTOOD_KEPT
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    SetInfo,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
    UnknownEvent,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import FetchStepEthereumLogs, ReadStepNdJson
from odf_protocol.multihash import Multihash

INFO = SetInfo(description="a")
WITH_DATA = chain(ROOT, COLUMNS, add_data(0, 9, new_watermark=day(5)))
COMPUTED = chain(DERIVATIVE, transform(INPUT), COLUMNS)
FIRST_INPUT = consumed(new_block_hash=made_up("b1"), new_offset=9)
EXECUTED = then(COMPUTED, execution(0, 9, FIRST_INPUT, new_watermark=day(5)))


# Structure


def test_a_chain_that_begins_without_seed_is_refused():
    with refusing("FirstBlockMustBeSeed"):
        then(EMPTY, INFO)


def test_a_second_seed_is_refused_even_if_it_claims_to_be_the_first_block():
    with refusing("AppendingSeedBlockToNonEmptyChain"):
        then(chain(ROOT), ROOT)
    with refusing("AppendingSeedBlockToNonEmptyChain"):
        then(chain(ROOT), ROOT, prev_block_hash=None, sequence_number=0)


def test_a_chain_whose_first_number_is_not_zero_is_refused():
    with refusing("SequenceIntegrity"):
        then(EMPTY, ROOT, sequence_number=1)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_chain_with_a_gap_or_a_repeated_number_is_refused(number):
    with refusing("SequenceIntegrity") as caught:
        then(chain(ROOT, INFO), INFO, sequence_number=number)
    assert caught.value.facts["prevNumber"] == 1
    assert caught.value.facts["nextNumber"] == number


def test_a_block_that_follows_another_block_than_the_head_is_refused():
    with refusing("PrevBlockNotFound"):
        then(chain(ROOT, INFO), INFO, prev_block_hash=chain(ROOT).head)
    with refusing("PrevBlockNotFound"):
        then(EMPTY, INFO, prev_block_hash=made_up("block"))


def test_system_time_may_stand_still_but_not_go_back_by_a_nanosecond():
    assert then(chain(ROOT), INFO, system_time=TIME).num_blocks == 2
    with refusing("SystemTimeIsNotMonotonic"):
        then(chain(ROOT), INFO, system_time=Instant(TIME.ns - 1))


def test_an_error_names_the_rule_the_block_and_the_reason():
    block = block_after(chain(ROOT), INFO, sequence_number=7)
    with refusing("SequenceIntegrity") as caught:
        append(chain(ROOT), block)
    facts = caught.value.facts
    assert facts["rule"] == "numbers_have_no_gaps"
    assert facts["block"] == str(block.hash)
    assert facts["sequenceNumber"] == 7
    assert facts["event"] == "SetInfo"
    assert facts["reason"] in str(caught.value)


def test_of_several_faults_the_one_seen_in_the_block_alone_is_reported_first():
    late = {"sequence_number": 9, "system_time": Instant(TIME.ns - 1)}
    with refusing("OffsetsAreNotSequential"):
        then(WITH_DATA, add_data(10, 19, prev_offset=4), **late)
    with refusing("NoOpEvent"):
        then(WITH_DATA, AddData(prev_offset=4), **late)
    with refusing("SequenceIntegrity"):
        then(WITH_DATA, add_data(10, 19), **late)
    with refusing("SystemTimeIsNotMonotonic"):
        then(WITH_DATA, add_data(10, 19), system_time=late["system_time"])


def test_every_event_is_known_to_the_rules_and_every_rule_has_a_name_of_its_own():
    named = [rule.name for rule in RULES]
    assert len(set(named)) == len(named)
    assert {kind for rule in RULES for kind in rule.about} <= set(CHANGES)
    assert set(CHANGES) == {*get_args(MetadataEvent), UnknownEvent}


# Data


def test_a_slice_that_leaves_a_gap_or_overlaps_is_refused():
    for start in (9, 11):
        with refusing("OffsetsAreNotSequential") as caught:
            then(WITH_DATA, add_data(start, 19, prev_offset=9, new_watermark=day(5)))
        assert caught.value.facts["expected"] == 10
        assert caught.value.facts["new"] == start


def test_a_slice_of_one_row_is_taken_and_one_without_rows_refused():
    assert then(WITH_DATA, add_data(10, 10, new_watermark=day(5))).num_records == 11
    with refusing("InvalidEvent"):
        then(WITH_DATA, add_data(10, 9, new_watermark=day(5)))


@pytest.mark.parametrize("claimed", [None, 4, 10])
def test_a_block_without_rows_must_still_carry_the_last_offset(claimed):
    with refusing("InvalidEvent"):
        then(WITH_DATA, AddData(prev_offset=claimed, new_watermark=day(6)))


def test_the_first_data_may_not_claim_a_previous_offset():
    with refusing("InvalidEvent"):
        then(chain(ROOT, COLUMNS), AddData(prev_offset=9, new_watermark=day(5)))


def test_a_first_data_block_without_rows_leaves_the_next_slice_at_zero():
    state = chain(ROOT, COLUMNS, AddData(new_watermark=day(5)))
    assert state.next_offset == 0
    assert then(state, add_data(0, 4, new_watermark=day(5))).last_offset == 4


def test_a_watermark_may_stand_still_but_neither_go_back_nor_vanish():
    assert then(WITH_DATA, add_data(10, 19, new_watermark=day(5))).watermark == day(5)
    for watermark in (day(4), None):
        with refusing("WatermarkIsNotMonotonic"):
            then(WITH_DATA, add_data(10, 19, new_watermark=watermark))


def test_a_slice_before_any_schema_is_refused_while_a_watermark_is_not():
    assert chain(ROOT, AddData(new_watermark=day(5))).watermark == day(5)
    with refusing("InvalidEvent", match="SetDataSchema"):
        chain(ROOT, add_data(0, 9))


def test_a_block_without_checkpoint_ends_the_chain_of_checkpoints():
    one = then(
        chain(ROOT, COLUMNS),
        add_data(0, 9, new_checkpoint=checkpoint("c1")),
    )
    assert one.last_checkpoint == made_up("c1")
    with refusing("InvalidEvent"):
        then(one, add_data(10, 19))
    two = then(one, add_data(10, 19, prev_checkpoint=made_up("c1")))
    assert two.last_checkpoint is None
    with refusing("InvalidEvent"):
        then(two, add_data(20, 29, prev_checkpoint=made_up("c1")))
    assert then(two, add_data(20, 29)).num_records == 30


def test_data_that_changes_nothing_is_refused_and_a_dropped_source_state_is_a_change():
    state = then(
        WITH_DATA,
        AddData(prev_offset=9, new_watermark=day(5), new_source_state=source_state("1")),
    )
    same = AddData(prev_offset=9, new_watermark=day(5), new_source_state=source_state("1"))
    with refusing("NoOpEvent"):
        then(state, same)
    with refusing("NoOpEvent"):
        then(state, AddData(prev_offset=9))
    dropped = then(state, AddData(prev_offset=9, new_watermark=day(5)))
    assert dropped.last_source_state is None


def test_the_state_sums_up_rows_and_bytes():
    state = then(WITH_DATA, add_data(10, 14, new_watermark=day(6), new_checkpoint=checkpoint("c1")))
    assert (state.num_blocks, state.num_records) == (4, 15)
    assert (state.data_size, state.checkpoints_size) == (200, 10)
    assert (state.last_offset, state.next_offset) == (14, 15)
    assert state.dataset_id == ROOT.dataset_id
    assert state.kind == ROOT.dataset_kind


# Executions


def test_an_execution_continues_its_inputs():
    done = then(
        EXECUTED,
        execution(
            10,
            14,
            consumed(
                prev_block_hash=made_up("b1"),
                new_block_hash=made_up("b2"),
                prev_offset=9,
                new_offset=12,
            ),
            new_watermark=day(5),
        ),
    )
    assert done.last_offset == 14
    assert done.last_execution is not None


@pytest.mark.parametrize(
    "item",
    [
        consumed(new_block_hash=made_up("b2"), prev_offset=9),
        consumed(prev_block_hash=made_up("b0"), prev_offset=9),
        consumed(prev_block_hash=made_up("b1"), prev_offset=8),
        consumed(prev_block_hash=made_up("b1"), prev_offset=None),
        consumed(prev_block_hash=made_up("b1"), prev_offset=9, new_offset=12),
        consumed(prev_block_hash=made_up("b1"), new_block_hash=made_up("b1"), prev_offset=9),
        consumed(
            prev_block_hash=made_up("b1"),
            new_block_hash=made_up("b2"),
            prev_offset=9,
            new_offset=9,
        ),
        consumed(OTHER_INPUT, new_block_hash=made_up("b1")),
    ],
    ids=[
        "previous block forgotten",
        "previous block wrong",
        "previous offset wrong",
        "previous offset forgotten",
        "offset without block",
        "block repeated",
        "offset repeated",
        "another input",
    ],
)
def test_an_execution_that_misstates_its_input_is_refused(item):
    with refusing("InvalidEvent"):
        then(EXECUTED, execution(10, 14, item, new_watermark=day(6)))


@pytest.mark.parametrize("more", [{"prev_block_hash": made_up("b0")}, {"prev_offset": 3}])
def test_a_first_execution_has_consumed_nothing_before(more):
    with refusing("InvalidEvent"):
        then(COMPUTED, execution(0, 9, consumed(new_block_hash=made_up("b1"), **more)))


def test_an_input_that_did_not_move_keeps_what_was_consumed_before():
    still = consumed(prev_block_hash=made_up("b1"), prev_offset=9)
    state = then(
        EXECUTED, ExecuteTransform(query_inputs=(still,), prev_offset=9, new_watermark=day(6))
    )
    again = then(
        state, ExecuteTransform(query_inputs=(still,), prev_offset=9, new_watermark=day(7))
    )
    assert again.watermark == day(7)


def test_an_execution_needs_a_transform_and_its_inputs_in_order():
    with refusing("InvalidEvent", match="SetTransform"):
        then(chain(DERIVATIVE, COLUMNS), execution(0, 9, FIRST_INPUT))
    state = chain(DERIVATIVE, transform(INPUT, OTHER_INPUT), COLUMNS)
    other = consumed(OTHER_INPUT, new_block_hash=made_up("o1"))
    with refusing("InvalidEvent"):
        then(state, execution(0, 9, other, FIRST_INPUT))
    with refusing("InvalidEvent"):
        then(state, execution(0, 9, FIRST_INPUT))
    assert then(state, execution(0, 9, FIRST_INPUT, other)).num_records == 10


def test_an_execution_that_changes_nothing_is_refused():
    still = consumed(prev_block_hash=made_up("b1"), prev_offset=9)
    with refusing("NoOpEvent"):
        then(EXECUTED, ExecuteTransform(query_inputs=(still,), prev_offset=9, new_watermark=day(5)))
    with refusing("NoOpEvent"):
        then(EXECUTED, ExecuteTransform(query_inputs=(still,), prev_offset=9))


def test_an_added_input_starts_from_nothing_and_the_others_go_on():
    state = then(EXECUTED, transform(OTHER_INPUT, INPUT))
    going_on = consumed(prev_block_hash=made_up("b1"), prev_offset=9)
    filled = consumed(OTHER_INPUT, prev_block_hash=made_up("o1"), prev_offset=3)
    fresh = consumed(OTHER_INPUT, new_block_hash=made_up("o1"), new_offset=3)
    with refusing("InvalidEvent"):
        then(state, execution(10, 14, filled, going_on, new_watermark=day(6)))
    done = then(state, execution(10, 14, fresh, going_on, new_watermark=day(6)))
    assert done.declared_inputs == (OTHER_INPUT, INPUT)


def test_a_received_execution_may_say_that_it_began_in_the_midst_of_an_added_input():
    blocks, state = [], EMPTY
    going_on = consumed(prev_block_hash=made_up("b1"), prev_offset=9)
    filled = consumed(OTHER_INPUT, prev_block_hash=made_up("o1"), prev_offset=3)
    for event in (
        DERIVATIVE,
        transform(INPUT),
        COLUMNS,
        execution(0, 9, FIRST_INPUT, new_watermark=day(5)),
        transform(OTHER_INPUT, INPUT),
        execution(10, 14, filled, going_on, new_watermark=day(6)),
    ):
        block = block_after(state, event)
        state = append_received(state, block)
        blocks.append(block)
    [warning] = report(blocks)
    assert (warning.rule, warning.origin) == ("new_inputs_start_from_nothing", "ours")


# Definitions


def test_data_and_sources_belong_into_roots_and_transforms_into_derivatives():
    for event in (AddData(new_watermark=day(5)), push_source(), polling_source()):
        with refusing("InvalidEvent", match="derivative"):
            then(chain(DERIVATIVE), event)
    with refusing("InvalidEvent", match="root"):
        then(chain(ROOT), transform(INPUT))


def test_polling_and_push_exclude_each_other():
    with refusing("InvalidEvent"):
        chain(ROOT, polling_source(), push_source())
    with refusing("InvalidEvent"):
        chain(ROOT, push_source(), polling_source())


def test_push_sources_live_side_by_side_and_replace_their_namesake():
    replaced = push_source("a", read=ReadStepNdJson(encoding="utf8"))
    state = chain(ROOT, push_source("a"), push_source("b"), replaced)
    assert dict(state.push_sources) == {"a": replaced, "b": push_source("b")}
    with refusing("NoOpEvent"):
        then(state, replaced)
    assert then(state, push_source("a")).push_sources["a"] == push_source("a")


def test_a_polling_source_is_replaced_by_another_but_not_by_itself():
    other = polling_source("https://example.org/b.csv")
    assert chain(ROOT, polling_source(), other).polling_source == other
    with refusing("NoOpEvent"):
        chain(ROOT, polling_source(), polling_source())


def test_after_disabling_a_source_of_the_other_sort_may_come():
    state = chain(ROOT, polling_source(), DisablePollingSource(), push_source())
    assert state.polling_source is None
    state = then(then(state, DisablePushSource(source_name="default")), polling_source())
    assert dict(state.push_sources) == {}
    assert state.polling_source == polling_source()


@pytest.mark.parametrize("event", [DisablePollingSource(), DisablePushSource(source_name="other")])
def test_only_an_active_source_can_be_disabled(event):
    with refusing("InvalidEvent"):
        chain(ROOT, push_source(), event)


def test_a_read_step_has_one_notation_of_its_schema():
    both = ReadStepNdJson(schema=DataSchema(fields=()), ddl_schema=("a STRING",))
    with refusing("InvalidEvent", match="both"):
        chain(ROOT, push_source(read=both))


def test_ethereum_logs_need_a_chain_or_a_node():
    with refusing("InvalidEvent"):
        chain(ROOT, polling_source(fetch=FetchStepEthereumLogs(signature="E()")))
    assert chain(ROOT, polling_source(fetch=FetchStepEthereumLogs(chain_id=1))).num_blocks == 2


@pytest.mark.parametrize(
    "query",
    [
        TransformSql(engine="spark", query="select 1"),
        TransformSql(engine="spark"),
        sql(),
        sql((None, "select 1"), (None, "select 2")),
        sql(("a", "select 1")),
    ],
    ids=["single query", "neither", "no steps", "unnamed step", "named last step"],
)
def test_sql_that_is_not_normalised_is_refused_wherever_it_stands(query):
    named = TransformInput(dataset_ref=DatasetRef(id=INPUT), alias="a")
    for seed, event in (
        (DERIVATIVE, SetTransform(inputs=(named,), transform=query)),
        (ROOT, push_source(preprocess=query)),
        (ROOT, polling_source(preprocess=query)),
    ):
        with refusing("InvalidEvent"):
            chain(seed, event)


@pytest.mark.parametrize(
    "inputs",
    [
        (),
        (TransformInput(dataset_ref=DatasetRef(id=INPUT)),),
        (TransformInput(dataset_ref=DatasetRef(alias=DatasetAlias.parse("a")), alias="a"),),
        (
            TransformInput(dataset_ref=DatasetRef(id=INPUT), alias="a"),
            TransformInput(dataset_ref=DatasetRef(id=INPUT), alias="b"),
        ),
    ],
    ids=["none", "no alias", "by name", "twice"],
)
def test_a_transform_with_unusable_inputs_is_refused(inputs):
    with refusing("InvalidEvent"):
        chain(DERIVATIVE, SetTransform(inputs=inputs, transform=sql((None, "select 1"))))


def test_a_vocabulary_may_change_until_there_is_a_schema():
    state = chain(ROOT, SetVocab(event_time_column="at"))
    assert state.vocab.columns == ("offset", "op", "system_time", "at")
    state = then(state, COLUMNS)
    with refusing("InvalidEvent"):
        then(state, SetVocab(event_time_column="when"))
    with refusing("InvalidEvent"):
        then(state, SetVocab())
    spelled_out = SetVocab(event_time_column="at", offset_column="offset")
    assert then(state, spelled_out).vocab.event == spelled_out


# Reports and newer writers


def test_a_report_lists_all_broken_rules_and_goes_on_behind_them():
    blocks, state = [], EMPTY
    for event, frame in (
        (ROOT, {}),
        (INFO, {"sequence_number": 5, "system_time": Instant(TIME.ns - 1)}),
        (INFO, {}),
        (add_data(3, 2), {}),
    ):
        block = block_after(state, event, **frame)
        state = state.after(block)
        blocks.append(block)
    assert [(one.sequence_number, one.rule) for one in report(blocks)] == [
        (5, "numbers_have_no_gaps"),
        (5, "system_time_never_goes_back"),
        (7, "slice_has_rows"),
        (7, "schema_comes_before_data"),
        (7, "first_data_has_no_previous_offset"),
    ]
    assert len(report(blocks, limit=1)) == 1
    with refusing("SequenceIntegrity"):
        fold(blocks)


def test_a_sound_chain_has_an_empty_report():
    blocks = [block_after(EMPTY, ROOT)]
    blocks.append(block_after(chain(ROOT), INFO))
    assert report(blocks) == []


def _newer(state, name):
    """A block whose event has a part that only newer writers know."""
    number = state.sequence_number + 1
    event = UnknownEvent(discriminator=1, name=name, detail="field 12")
    block = MetadataBlock(
        system_time=TIME, prev_block_hash=state.head, sequence_number=number, event=event
    )
    raw = f"newer block {number}".encode()
    return HashedBlock(Multihash.of(raw), raw, block)


def test_a_block_of_a_newer_writer_is_kept_and_remembered():
    newer = _newer(WITH_DATA, None)
    state = then(append(WITH_DATA, newer), add_data(10, 19, new_watermark=day(6)))
    assert state.not_understood == (newer.hash,)
    assert state.num_blocks == WITH_DATA.num_blocks + 2
    with refusing("NotUnderstood"):
        state.require_understood()
    WITH_DATA.require_understood()


def test_what_a_newer_form_of_data_hides_is_not_judged_until_data_is_understood_again():
    state = append(WITH_DATA, _newer(WITH_DATA, "AddData"))
    later = then(state, add_data(40, 49, new_watermark=day(2)))
    assert later.last_offset == 49
    with refusing("InvalidEvent"):
        then(later, add_data(90, 99, new_watermark=day(2)))


def test_a_newer_form_of_one_thing_does_not_hide_another():
    state = append(WITH_DATA, _newer(WITH_DATA, "AddPushSource"))
    assert then(state, polling_source()).num_blocks == 5
    with refusing("OffsetsAreNotSequential"):
        then(state, AddData(prev_offset=9, new_data=data_slice(12, 19), new_watermark=day(6)))


def test_a_newer_writer_keeps_the_structure_too():
    first = MetadataBlock(system_time=TIME, sequence_number=0, event=UnknownEvent(discriminator=99))
    with refusing("FirstBlockMustBeSeed"):
        append(EMPTY, HashedBlock(made_up("first"), b"first", first))
    with refusing("AppendingSeedBlockToNonEmptyChain"):
        append(WITH_DATA, _newer(WITH_DATA, "Seed"))


def test_a_chain_full_of_newer_events_does_not_swell_the_state():
    state = WITH_DATA
    for _ in range(NOT_UNDERSTOOD_KEPT + 5):
        state = append(state, _newer(state, None))
    assert len(state.not_understood) == NOT_UNDERSTOOD_KEPT


def test_the_number_of_push_sources_is_limited():
    state = chain(ROOT, *(push_source(f"s{number}") for number in range(MAX_PUSH_SOURCES)))
    with refusing("InvalidEvent", match="at most"):
        then(state, push_source("another"))
    replaced = push_source("s0", read=ReadStepNdJson(encoding="utf8"))
    assert then(state, replaced).push_sources["s0"] == replaced
