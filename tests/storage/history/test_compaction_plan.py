"""Which blocks are joined follows from the blocks alone, as the known answers say."""

from __future__ import annotations

from typing import Any

import pytest
from chain_maker import entry, linked, seed, some_id
from known import document
from refusals import refusing
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_protocol.metadata.attributes import Attributes
from odf_protocol.metadata.events import (
    AddData,
    AddPushSource,
    AttachmentsEmbedded,
    Checkpoint,
    DatasetKind,
    DataSlice,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    HashedBlock,
    OffsetInterval,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    TransformSql,
)
from odf_protocol.metadata.schema import DataField, DataSchema, DataTypeInt64
from odf_protocol.metadata.sources import FetchStepUrl, MergeStrategyAppend, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_protocol.references import SUMMARY_KEY
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.rewrite.compact import plan_hard
from odf_storage.datasets.rewrite.compaction import (
    Keep,
    Merge,
    SliceLimits,
    hard_compaction,
    merged_event,
    without_data,
)

CASES = document("ingest/compaction")["cases"]


def slice_of(given: dict[str, Any]) -> DataSlice | None:
    if "offsets" not in given:
        return None
    start, end = given["offsets"]
    return DataSlice(
        logical_hash=Multihash.of(f"rows {start}".encode()),
        physical_hash=Multihash.of(f"file {start}".encode()),
        offset_interval=OffsetInterval(start=start, end=end),
        size=given["size"],
    )


def event_of(given: dict[str, Any], kind: DatasetKind) -> Any:
    watermark = given.get("watermark")
    when = None if watermark is None else Instant.parse(watermark)
    state = given.get("source_state")
    plain: dict[str, Any] = {
        "Seed": seed(some_id("compacted"), kind),
        "AddPushSource": AddPushSource(
            source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend()
        ),
        "SetVocab": SetVocab(event_time_column="date"),
        "SetDataSchema": SetDataSchema(
            schema=DataSchema(fields=(DataField(name="offset", type=DataTypeInt64()),))
        ),
        "SetLicense": SetLicense(short_name="a", name="b", website_url="http://c.d"),
        "SetInfo": SetInfo(description="a"),
        "SetAttachments": SetAttachments(attachments=AttachmentsEmbedded(items=())),
        "SetPollingSource": SetPollingSource(
            fetch=FetchStepUrl(url="http://c.d"), read=ReadStepNdJson(), merge=MergeStrategyAppend()
        ),
        "DisablePushSource": DisablePushSource(source_name="default"),
        "DisablePollingSource": DisablePollingSource(),
        "SetTransform": SetTransform(inputs=(), transform=TransformSql(engine="spark")),
        "ExecuteTransform": ExecuteTransform(
            query_inputs=(), new_data=slice_of(given), new_watermark=when
        ),
        "AddData": AddData(
            new_data=slice_of(given),
            new_watermark=when,
            new_source_state=state
            and SourceState(source_name="default", kind="odf/etag", value=state),
        ),
    }
    return plain[given["event"]]


def chain_of(given: dict[str, Any]) -> list[HashedBlock]:
    blocks: list[HashedBlock] = []
    for block in given["blocks"]:
        event = event_of(block, DatasetKind(given["dataset_kind"]))
        blocks.append(linked(blocks[-1] if blocks else None, event))
    return blocks


def shown(step: Keep | Merge) -> dict[str, Any]:
    """A block as the vectors describe it."""
    if isinstance(step, Keep):
        event, source = step.block.event, {"size": getattr(step.block.event, "new_data", None)}
        source = {"size": source["size"].size} if source["size"] is not None else {}
    else:
        first, last = step.slices[0], step.slices[-1]
        whole = OffsetInterval(start=first.offset_interval.start, end=last.offset_interval.end)
        merged = DataSlice(
            logical_hash=first.logical_hash,
            physical_hash=first.physical_hash,
            offset_interval=whole,
            size=1,
        )
        event, source = merged_event(step, merged), {"merged_from": len(step.slices)}
    found: dict[str, Any] = {"event": type(event).__name__, **source}
    if isinstance(event, AddData | ExecuteTransform):
        if event.new_data is not None:
            interval = event.new_data.offset_interval
            found["offsets"] = [interval.start, interval.end]
        if event.new_watermark is not None:
            found["watermark"] = str(event.new_watermark)
        if isinstance(event, AddData) and event.new_source_state is not None:
            found["source_state"] = event.new_source_state.value
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_chain_is_compacted_as_the_known_answers_say(case: dict[str, Any]) -> None:
    given, expected = case["given"], case["expect"]
    if "error" in expected:
        assert expected["error"]["kind"] == "InvalidDatasetKind"
        whole = Dataset(entry(kind=DatasetKind(given["dataset_kind"])), throwaway_stores())
        with refusing("InvalidDatasetKind"):
            plan_hard(whole, SliceLimits())
        return
    old, options = chain_of(given), given.get("options", {})
    if options.get("keep_metadata_only"):
        steps = without_data(old)
    else:
        defaults = SliceLimits()
        limits = SliceLimits(
            size=options.get("max_slice_size", defaults.size),
            records=options.get("max_slice_records", defaults.records),
        )
        steps = hard_compaction(old, limits)
    same = len(steps) == len(old) and not any(isinstance(step, Merge) for step in steps)
    assert ("NothingToDo" if same else "Success") == expected["result"]
    if not same:
        assert (len(old), len(steps)) == (expected["old_num_blocks"], expected["new_num_blocks"])
        assert [shown(step) for step in steps] == expected["blocks"]


def data(start: int, end: int, size: int = 10, **more: Any) -> AddData:
    return AddData(new_data=slice_of({"offsets": [start, end], "size": size}), **more)


def behind_seed(*events: Any) -> list[HashedBlock]:
    blocks = [linked(None, seed(some_id("compacted")))]
    for event in events:
        blocks.append(linked(blocks[-1], event))
    return blocks


def test_a_slice_above_the_limits_stays_alone() -> None:
    old = behind_seed(data(0, 1), data(2, 99), data(100, 101), data(102, 103))
    steps = hard_compaction(old, SliceLimits(records=10))
    assert [type(step).__name__ for step in steps] == ["Keep", "Keep", "Keep", "Merge"]


def test_blocks_without_rows_and_without_a_slice_at_their_side_stay() -> None:
    at = Instant.parse("2050-01-01T00:00:00Z")
    license_ = SetLicense(short_name="a", name="b", website_url="http://c.d")
    old = behind_seed(AddData(new_watermark=at), AddData(new_watermark=at), license_, data(0, 1))
    assert [step.block for step in hard_compaction(old, SliceLimits())] == old  # type: ignore[union-attr]


def test_a_block_without_rows_goes_to_the_newer_slice_when_the_older_has_no_room() -> None:
    state = SourceState(source_name="a", kind="odf/etag", value="1")
    between = AddData(prev_offset=4, new_source_state=state)
    old = behind_seed(data(0, 4), between, data(5, 9))
    keep, first, merge = hard_compaction(old, SliceLimits(records=5))
    assert isinstance(keep, Keep)
    assert isinstance(first, Keep)
    assert isinstance(merge, Merge)
    assert merge.blocks == (old[2], old[3])
    joined = merged_event(merge, merge.slices[0])
    assert (joined.prev_offset, joined.new_source_state) == (4, None)


def test_checkpoints_go_on_from_the_first_to_the_last_and_linked_objects_add_up() -> None:
    def extra(count: int) -> Attributes:
        counts = {"numObjectsNaive": count, "sizeNaive": 10 * count}
        return Attributes.of({SUMMARY_KEY: counts, "example.com/n": count})

    before, last = Multihash.of(b"0"), Checkpoint(physical_hash=Multihash.of(b"2"), size=1)
    middle = Checkpoint(physical_hash=Multihash.of(b"1"), size=1)
    old = behind_seed(
        data(0, 1, prev_checkpoint=before, new_checkpoint=middle, extra=extra(1)),
        data(2, 3, prev_checkpoint=middle.physical_hash, new_checkpoint=last, extra=extra(2)),
    )
    [_, merge] = hard_compaction(old, SliceLimits())
    assert isinstance(merge, Merge)
    joined = merged_event(merge, merge.slices[0])
    assert (joined.prev_checkpoint, joined.new_checkpoint) == (before, last)
    assert joined.extra is not None
    assert joined.extra.value == {
        SUMMARY_KEY: {"numObjectsNaive": 3, "sizeNaive": 30},
        "example.com/n": 2,
    }
