"""Iterations of any size, over any histories, read everything once and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    DatasetKind,
    DataSlice,
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
    IterationLimits,
    TransformPlan,
    UpToDate,
    consumed_by,
    plan_transform,
)

NOW = Instant.parse("2030-01-01T00:00:00Z")
KINDS = st.sampled_from(["data", "watermark", "schema", "info"])
STEPS = st.lists(st.tuples(KINDS, st.integers(0, 3), st.integers(1, 5)), max_size=12)
HISTORIES = st.lists(STEPS, min_size=1, max_size=3)


def blocks_of(name: str, steps: list[tuple[str, int, int]]) -> list[InputBlock]:
    """A schema, then the steps: kind, seconds since the last one, rows."""
    when, offset, mark = NOW, None, None
    made = [block(name, 0, NOW, sets_schema=True)]
    for number, (kind, seconds, rows) in enumerate(steps, 1):
        when = Instant(when.ns + seconds * 1_000_000_000)
        if kind == "data":
            start = 0 if offset is None else offset + 1
            offset = start + rows - 1
            data = DataSlice(
                logical_hash=hash_of(f"{name} {number} rows"),
                physical_hash=hash_of(f"{name} {number} file"),
                offset_interval=OffsetInterval(start=start, end=offset),
                size=rows * 10,
            )
            made.append(
                block(
                    name,
                    number,
                    when,
                    adds_data=True,
                    data=data,
                    last_offset=offset,
                    watermark=mark,
                )
            )
        elif kind == "watermark":
            mark = when
            made.append(
                block(name, number, when, adds_data=True, last_offset=offset, watermark=mark)
            )
        else:
            made.append(block(name, number, when, sets_schema=kind == "schema"))
    return made


def hash_of(text: str) -> Multihash:
    return Multihash.of(text.encode())


def block(name: str, number: int, when: Instant, **more: object) -> InputBlock:
    return InputBlock(hash=hash_of(f"{name} {number}"), system_time=when, **more)  # type: ignore[arg-type]


def id_of(name: str) -> DatasetId:
    return DatasetId(name.encode().ljust(32, b"."))


def chains(target: ChainState, histories: dict[str, list[InputBlock]]) -> list[InputChain]:
    consumed, found = consumed_by(target), []
    for name, blocks in histories.items():
        before = consumed.get(id_of(name))
        names = [one.hash for one in blocks]
        at = 0 if before is None or before.block is None else names.index(before.block) + 1
        added = [one for one in blocks[:at] if one.adds_data]
        found.append(
            InputChain(
                id=id_of(name),
                alias=name,
                head=names[-1],
                has_schema=True,
                blocks=blocks[at:],
                last_offset=added[-1].last_offset if added else None,
            )
        )
    return found


def definition(names: list[str]) -> SetTransform:
    return SetTransform(
        inputs=tuple(
            TransformInput(dataset_ref=DatasetRef(id=id_of(name)), alias=name) for name in names
        ),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
    )


def all_plans(
    histories: dict[str, list[InputBlock]], limits: IterationLimits
) -> list[TransformPlan]:
    target = ChainState(
        kind=DatasetKind.Derivative,
        head=hash_of("target"),
        system_time=NOW,
        transform=definition(list(histories)),
        schema=SetDataSchema(schema=DataSchema(fields=())),
    )
    plans = []
    while True:
        plan = plan_transform(target, chains(target, histories), now=NOW, limits=limits)
        if isinstance(plan, UpToDate):
            return plans
        assert isinstance(plan, TransformPlan)
        plans.append(plan)
        event = plan.event(data=None, checkpoint=None, watermark=NOW)
        target = replace(target, last_execution=event)


@given(HISTORIES, st.integers(1, 12))
def test_iterations_read_every_row_once_and_in_order(
    steps: list[list[tuple[str, int, int]]], rows: int
) -> None:
    histories = {f"in{n}": blocks_of(f"in{n}", one) for n, one in enumerate(steps)}
    plans = all_plans(histories, IterationLimits(rows=rows, bytes=1 << 40))
    for at, blocks in enumerate(histories.values()):
        wanted = [one.data for one in blocks if one.data is not None]
        assert [part for plan in plans for part in plan.inputs[at].slices] == wanted
        marks = [one.watermark for one in blocks if one.watermark is not None]
        found = [mark.event_time for plan in plans for mark in plan.inputs[at].watermarks]
        assert found == marks
    assert all(plan.has_more for plan in plans[:-1])


@given(HISTORIES, st.integers(1, 12))
def test_iterations_stay_within_their_limit_unless_one_block_is_larger(
    steps: list[list[tuple[str, int, int]]], rows: int
) -> None:
    histories = {f"in{n}": blocks_of(f"in{n}", one) for n, one in enumerate(steps)}
    for plan in all_plans(histories, IterationLimits(rows=rows, bytes=1 << 40)):
        slices = [part for item in plan.inputs for part in item.slices]
        total = sum(p.offset_interval.end - p.offset_interval.start + 1 for p in slices)
        assert total <= rows or len(slices) == 1


@given(HISTORIES)
def test_no_iteration_spans_a_change_of_columns(steps: list[list[tuple[str, int, int]]]) -> None:
    histories = {f"in{n}": blocks_of(f"in{n}", one) for n, one in enumerate(steps)}
    for plan in all_plans(histories, IterationLimits()):
        for item, blocks in zip(plan.inputs, histories.values(), strict=True):
            read = {part.physical_hash for part in item.slices}
            eras = set()
            era = 0
            for one in blocks:
                era += one.sets_schema
                if one.data is not None and one.data.physical_hash in read:
                    eras.add(era)
            assert len(eras) <= 1


@given(HISTORIES, st.integers(1, 12))
def test_what_is_read_together_lies_together_in_time(
    steps: list[list[tuple[str, int, int]]], rows: int
) -> None:
    histories = {f"in{n}": blocks_of(f"in{n}", one) for n, one in enumerate(steps)}
    plans = all_plans(histories, IterationLimits(rows=rows, bytes=1 << 40))
    times = {one.hash: one.system_time for blocks in histories.values() for one in blocks}
    last = None
    for plan in plans:
        ends = [times[item.new_block] for item in plan.inputs if item.new_block is not None]
        assert last is None or max(ends) >= last
        last = max(ends)
