"""What one iteration reads of one input: the interval, its watermarks, and whose schema holds."""

from __future__ import annotations

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, OffsetInterval, Watermark
from odf_protocol.multihash import Multihash
from odf_workers.plan.transform import Consumed, InputBlock, InputChain, input_plan

DAYS = [Instant.parse(f"2030-01-0{day}T00:00:00Z") for day in range(1, 8)]


def hash_of(name: str) -> Multihash:
    return Multihash.of(name.encode())


def schema(name: str, day: int) -> InputBlock:
    return InputBlock(hash=hash_of(name), system_time=DAYS[day], sets_schema=True)


def data(name: str, day: int, start: int, end: int) -> InputBlock:
    held = DataSlice(
        logical_hash=hash_of(f"{name} rows"),
        physical_hash=hash_of(f"{name} file"),
        offset_interval=OffsetInterval(start=start, end=end),
        size=10,
    )
    return InputBlock(
        hash=hash_of(name), system_time=DAYS[day], adds_data=True, data=held, last_offset=end
    )


def mark(name: str, day: int, offset: int | None) -> InputBlock:
    return InputBlock(
        hash=hash_of(name),
        system_time=DAYS[day],
        adds_data=True,
        last_offset=offset,
        watermark=DAYS[day],
    )


def chain(
    *blocks: InputBlock, complete: bool = True, head: str = "head", had_schema: bool = True
) -> InputChain:
    return InputChain(
        id=DatasetId(b"a" * 32),
        alias="a",
        head=hash_of(head),
        has_schema=True,
        had_schema=had_schema,
        blocks=blocks,
        complete=complete,
        watermark=Watermark(system_time=DAYS[0], event_time=DAYS[0]),
    )


NOTHING = Consumed()
ALL_OF = Consumed(hash_of("before"), 4)


def test_a_first_iteration_begins_at_offset_nought() -> None:
    blocks = [schema("s", 0), data("d", 1, 0, 2)]
    plan = input_plan(chain(*blocks), NOTHING, blocks)
    assert plan.offset_interval == OffsetInterval(start=0, end=2)
    assert (plan.prev_block, plan.new_block) == (None, hash_of("d"))


def test_a_later_iteration_goes_on_behind_what_was_read() -> None:
    blocks = [data("d", 1, 5, 9)]
    plan = input_plan(chain(*blocks), ALL_OF, blocks)
    assert plan.offset_interval == OffsetInterval(start=5, end=9)
    assert (plan.prev_block, plan.prev_offset) == (hash_of("before"), 4)


def test_blocks_without_rows_move_the_block_but_no_offset() -> None:
    blocks = [mark("m", 1, 4)]
    plan = input_plan(chain(*blocks), ALL_OF, blocks)
    assert (plan.new_block, plan.new_offset, plan.offset_interval) == (hash_of("m"), None, None)


def test_an_earlier_watermark_is_remembered_only_where_none_is_new() -> None:
    idle = input_plan(chain(), ALL_OF, [])
    assert (idle.watermarks, idle.watermark) == ((), DAYS[0])
    blocks = [mark("m", 3, 4)]
    fresh = input_plan(chain(*blocks), ALL_OF, blocks)
    assert (fresh.remembered, fresh.watermark) == (None, DAYS[3])


def test_the_newest_schema_holds_unless_it_changes_behind_what_is_read() -> None:
    """The head knows every schema; a later change must not reach back to rows before it."""
    first, change, second = data("d", 1, 5, 6), schema("s", 2), data("e", 3, 7, 8)
    before = input_plan(chain(first, change, second), ALL_OF, [first])
    assert before.as_of == hash_of("d")
    after = input_plan(chain(first, change, second), ALL_OF, [first, change, second])
    assert after.as_of == hash_of("head")
    unchanged = input_plan(chain(first, second), ALL_OF, [first])
    assert unchanged.as_of == hash_of("head")


def test_a_chain_not_seen_to_its_head_may_change_its_schema_there() -> None:
    blocks = [data("d", 1, 5, 6)]
    plan = input_plan(chain(*blocks, complete=False), ALL_OF, blocks)
    assert plan.as_of == hash_of("d")


def test_an_input_nothing_is_read_of_has_the_schema_it_had() -> None:
    change = schema("s", 2)
    consumed = input_plan(chain(change), ALL_OF, [])
    assert consumed.as_of == hash_of("before")
    never = input_plan(chain(schema("first", 1), change, had_schema=False), NOTHING, [])
    assert never.as_of == hash_of("first")


def test_an_input_that_ends_before_its_first_schema_has_that_schema() -> None:
    seed, change = mark("seed", 0, None), schema("second", 2)
    blocks = [seed, schema("first", 1), change]
    assert input_plan(chain(*blocks, had_schema=False), NOTHING, [seed]).as_of == hash_of("first")
    later = chain(*blocks[1:], had_schema=False)
    assert input_plan(later, Consumed(seed.hash), []).as_of == hash_of("first")
    assert input_plan(later, Consumed(seed.hash), blocks[1:2]).as_of == hash_of("first")


def test_the_interval_in_the_chain_says_what_was_read() -> None:
    blocks = [data("d", 1, 5, 9)]
    record = input_plan(chain(*blocks), ALL_OF, blocks).record()
    assert (record.prev_offset, record.new_offset) == (4, 9)
    assert (record.prev_block_hash, record.new_block_hash) == (hash_of("before"), hash_of("d"))
