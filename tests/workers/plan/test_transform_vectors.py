"""Plans of transforms and the watermarks of their outputs are the known answers."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refusing
from tests.workers import tables

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    SetDataSchema,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash
from odf_workers.plan.transform import (
    InputBlock,
    InputChain,
    ResetFirst,
    TransformPlan,
    UpToDate,
    never_back,
    plan_transform,
    smallest_watermark,
)

NOW = Instant.parse("2030-01-01T00:00:00Z")
WATERMARKS = [c for c in tables.cases("watermark") if c["given"]["operation"] == "transform"]


def hash_of(name: str) -> Multihash:
    return Multihash.of(name.encode())


def id_of(alias: str) -> DatasetId:
    return DatasetId(alias.encode().ljust(32, b"."))


def slice_of(name: str, start: int, end: int) -> DataSlice:
    return DataSlice(
        logical_hash=hash_of(f"logical {name}"),
        physical_hash=hash_of(f"physical {name}"),
        offset_interval=OffsetInterval(start=start, end=end),
        size=100,
    )


def block_of(given: dict[str, Any]) -> InputBlock:
    adds = given["event"] in ("AddData", "ExecuteTransform")
    data = slice_of(given["id"], *given["offsets"]) if "offsets" in given else None
    return InputBlock(
        hash=hash_of(given["id"]),
        system_time=Instant.parse(given["system_time"]),
        adds_data=adds,
        data=data,
        last_offset=data.offset_interval.end if data else None,
        watermark=Instant.parse(given["watermark"]) if "watermark" in given else None,
        sets_schema=given["event"] == "SetDataSchema",
    )


def chain_of(given: dict[str, Any]) -> InputChain:
    blocks = [block_of(block) for block in given["blocks"]]
    prior = given["prior"]
    names = [block["id"] for block in given["blocks"]]
    known = prior is not None and prior["block"] in names
    after = names.index(prior["block"]) + 1 if known else 0
    last = consumed = None
    fresh: list[InputBlock] = []
    for at, block in enumerate(blocks):
        if block.adds_data:
            last = block.last_offset if block.data else last
            block = InputBlock(
                **{name: getattr(block, name) for name in block.__slots__ if name != "last_offset"},
                last_offset=last,
            )
        if at >= after:
            fresh.append(block)
        else:
            consumed = last
    return InputChain(
        id=id_of(given["alias"]),
        alias=given["alias"],
        head=blocks[-1].hash,
        has_schema=any(block.sets_schema for block in blocks),
        blocks=fresh,
        diverged=prior is not None and not known,
        last_offset=consumed,
    )


def target_of(given: dict[str, Any]) -> ChainState:
    inputs = given["inputs"]
    priors = [item["prior"] for item in inputs]
    execution = ExecuteTransform(
        query_inputs=tuple(
            ExecuteTransformInput(
                dataset_id=id_of(item["alias"]),
                new_block_hash=hash_of(item["prior"]["block"]) if item["prior"] else None,
                new_offset=item["prior"]["offset"] if item["prior"] else None,
            )
            for item in inputs
        )
    )
    return ChainState(
        kind=DatasetKind.Derivative,
        head=hash_of("target"),
        system_time=NOW,
        transform=SetTransform(
            inputs=tuple(
                TransformInput(dataset_ref=DatasetRef(id=id_of(i["alias"])), alias=i["alias"])
                for i in inputs
            ),
            transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
        ),
        schema=SetDataSchema(schema=DataSchema(fields=())) if given["output_has_schema"] else None,
        last_execution=execution if any(priors) else None,
    )


def shown(plan: TransformPlan, given: dict[str, Any]) -> dict[str, Any]:
    names = {hash_of(b["id"]): b["id"] for item in given["inputs"] for b in item["blocks"]}
    slices = {
        hash_of(f"physical {b['id']}"): b["id"] for item in given["inputs"] for b in item["blocks"]
    }
    return {
        item.alias: {
            "prev_block": item.prev_block and names[item.prev_block],
            "new_block": item.new_block and names[item.new_block],
            "prev_offset": item.prev_offset,
            "new_offset": item.new_offset,
            "data_slices": [slices[part.physical_hash] for part in item.slices],
            "explicit_watermarks": [str(mark.event_time) for mark in item.watermarks],
            "offset_interval": item.offset_interval
            and [item.offset_interval.start, item.offset_interval.end],
        }
        for item in plan.inputs
    }


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in tables.cases("plan")])
def test_the_plan_is_the_known_one(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    allowed = given.get("options", {}).get("reset_derivatives_on_diverged_input", False)
    chains = [chain_of(item) for item in given["inputs"]]

    def plan() -> TransformPlan | UpToDate | ResetFirst:
        return plan_transform(target_of(given), chains, now=NOW, reset_on_diverged=allowed)

    match expect["status"]:
        case "Error":
            with refusing("InvalidInputInterval") as error:
                plan()
            assert error.value.facts["input"] == expect["error"]["input"]
        case "ResetThenExecute":
            assert isinstance(plan(), ResetFirst)
        case "UpToDate":
            found = plan()
            assert isinstance(found, UpToDate)
            assert (found.reason or "").startswith(expect.get("reason", ""))
        case "Execute":
            found = plan()
            assert isinstance(found, TransformPlan)
            assert shown(found, given) == expect["inputs"]


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in WATERMARKS])
def test_the_watermark_of_the_output_is_the_known_one(case: dict[str, Any]) -> None:
    rounds = case["given"]["rounds"]
    aliases = [alias for round_ in rounds for alias in round_]
    memory: dict[str, Instant | None] = dict.fromkeys(aliases)
    before, found = None, []
    for round_ in rounds:
        for alias, texts in round_.items():
            for text in texts:
                memory[alias] = never_back(memory[alias], Instant.parse(text))
        before = never_back(before, smallest_watermark(list(memory.values())))
        found.append(before)
    assert [mark and str(mark) for mark in found] == case["expect"]["watermarks"]
