"""Known answers for appending to a chain, judging schemas and preparing manifests.

Cases marked as disputed are those where other nodes answer differently; they run apart.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from raw_arrow import bare_schema
from refusals import refusing

from odf_protocol.chain.definition_rules import ChainRuleBroken
from odf_protocol.chain.rules import RuleOrigin, append, append_received, fold, report
from odf_protocol.chain.snapshot import prepare
from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.codec.manifests import from_data, to_data
from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetSnapshot,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetDataSchema,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash

VECTORS = Path(__file__).parents[1] / "vectors" / "ingest"
UNKNOWN_BLOCK = Multihash.of(b"a block nobody has")


def _cases(kind: str, *, disputed: bool) -> list:
    cases = json.loads((VECTORS / f"{kind}.json").read_text())["cases"]
    chosen = [case for case in cases if bool(case.get("disputed")) == disputed]
    return [pytest.param(case, id=f"{case['id']}: {case['title']}") for case in chosen]


def _block(event, prev, number, system_time):
    return encode_block(
        MetadataBlock(
            system_time=Instant.parse(system_time),
            prev_block_hash=prev,
            sequence_number=number,
            event=from_data(event, MetadataEvent),
        )
    )


def _setup(given):
    blocks = []
    for number, step in enumerate(given["setup"]):
        time = step.get("system_time", given["default_system_time"])
        prev = blocks[-1].hash if blocks else None
        blocks.append(_block(step["event"], prev, number, time))
    return blocks


class HeadMoved(NodeError):
    """The swap of the head, which compares it with the previous block."""


def _append(given, append=append):
    step, blocks = given["append"], _setup(given)
    at = step.get("prev", len(blocks) - 1 if blocks else None)
    before = blocks if at == "unknown" else blocks[: 0 if at is None else at + 1]
    prev = UNKNOWN_BLOCK if at == "unknown" else before[-1].hash if before else None
    number = step.get("seq", len(before))
    time = step.get("system_time", given["default_system_time"])
    block = _block(step["event"], prev, number, time)
    fold(blocks)
    append(fold(before), block)
    if (expected := step.get("expected_hash", "computed")) != "computed":
        decode_block(block.raw, expected=Multihash.parse(expected))
    if prev != (blocks[-1].hash if blocks else None):
        raise HeadMoved("the head is another block")


@pytest.mark.parametrize(
    "case",
    [one for one in _cases("chain", disputed=True) if one.values[0]["reference_outcome"].get("ok")],
)
def test_a_received_block_is_taken_where_others_take_it_and_a_report_says_so(case):
    _append(case["given"], append_received)
    blocks = _setup(case["given"])
    step = case["given"]["append"]
    time = step.get("system_time", case["given"]["default_system_time"])
    blocks.append(_block(step["event"], blocks[-1].hash, len(blocks), time))
    assert {RuleOrigin(one.origin) for one in report(blocks)} <= {RuleOrigin.OURS}
    assert blocks[-1].hash in {one.block for one in report(blocks)}


def _check_chain_case(case):
    expect = case["expect"]
    if "ok" in expect:
        _append(case["given"])
        return
    with pytest.raises(NodeError) as caught:
        _append(case["given"])
    kind = {"HeadMoved": "RefCASFailed"}.get(caught.value.code, caught.value.code)
    assert kind == expect["error"]["kind"]
    assert expect["error"].get("contains", "") in str(caught.value)
    if isinstance(caught.value, ChainRuleBroken):
        assert caught.value.facts["rule"]
        assert json.loads(json.dumps(caught.value.facts)) == caught.value.facts


@pytest.mark.parametrize("case", _cases("chain", disputed=False))
def test_a_block_is_taken_or_refused_as_everywhere(case):
    _check_chain_case(case)


@pytest.mark.parametrize("case", _cases("chain", disputed=True))
def test_a_block_is_refused_where_others_look_away(case):
    _check_chain_case(case)


def _evolve(given, append=append):
    current = from_data(given["from"], DataSchema)
    first = (
        SetDataSchema(raw_arrow_schema=bare_schema(to_arrow(current)))
        if given["from_is_legacy_arrow"]
        else SetDataSchema(schema=current)
    )
    seed = {"kind": "Seed", "datasetId": str(DatasetId(bytes(32))), "datasetKind": "Root"}
    blocks = [_block(seed, None, 0, "2020-01-01T00:00:00Z")]
    for event in (first, SetDataSchema(schema=from_data(given["to"], DataSchema))):
        data = to_data(event)
        prev = blocks[-1]
        blocks.append(_block(data, prev.hash, prev.sequence_number + 1, "2020-01-01T00:00:00Z"))
    append(fold(blocks[:-1]), blocks[-1])


def _check_schema_case(case):
    errors = {"no-op": "NoOpEvent", "incompatible": "InvalidEvent"}
    result = case["expect"]["result"]
    if result == "ok":
        _evolve(case["given"])
    else:
        with refusing(errors[result]):
            _evolve(case["given"])


@pytest.mark.parametrize("case", _cases("schema_evolution", disputed=False))
def test_a_schema_may_follow_another_or_not_as_everywhere(case):
    _check_schema_case(case)


@pytest.mark.parametrize("case", _cases("schema_evolution", disputed=True))
def test_a_schema_change_is_refused_where_others_look_away(case):
    _check_schema_case(case)


@pytest.mark.parametrize("case", _cases("schema_evolution", disputed=True))
def test_a_received_schema_is_taken_where_others_take_it(case):
    _evolve(case["given"], append_received)


def _check_snapshot_case(case):
    given, expect = case["given"], case["expect"]
    existing = {DatasetRef.parse(k): DatasetId.parse(v) for k, v in given["existing"].items()}
    by_id = {DatasetRef(id=one): one for one in existing.values()}
    snapshot = from_data(given["snapshot"], DatasetSnapshot)
    new = DatasetId(bytes(32))
    if "error" in expect:
        with pytest.raises(NodeError) as caught:
            prepare(snapshot, dataset_id=new, resolve=(existing | by_id).get)
        assert caught.value.code == expect["error"]["kind"]
        if missing := expect["error"].get("missing"):
            assert caught.value.facts["missing"] == missing
        return
    events = prepare(snapshot, dataset_id=new, resolve=(existing | by_id).get)
    assert [type(event).__name__ for event in events] == expect["events"]
    assert events[0] == Seed(dataset_id=new, dataset_kind=snapshot.kind)
    for name, value in expect.get("normalized", {}).items():
        assert any(to_data(event).get(name) == value for event in events)


@pytest.mark.parametrize("case", _cases("snapshot", disputed=False))
def test_a_manifest_is_prepared_as_everywhere(case):
    _check_snapshot_case(case)


DISPUTED_SNAPSHOTS = _cases("snapshot", disputed=True)
if DISPUTED_SNAPSHOTS:

    @pytest.mark.parametrize("case", DISPUTED_SNAPSHOTS)
    def test_a_manifest_is_prepared_where_others_do_otherwise(case):
        _check_snapshot_case(case)
