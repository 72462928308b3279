"""An index of the node's own is read where it can hold a value: one footer and one row group."""

from __future__ import annotations

import io
import random
from datetime import UTC, date, datetime, timedelta
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from odf_protocol.instant import Instant
from odf_protocol.kartothek.keys import state_keys
from odf_protocol.kartothek.predicates import LABEL, VALUE, Op, Term, encode_index, pairs_of
from odf_protocol.kartothek.state import State
from odf_storage.datasets.kartothek.parts import FoundState
from odf_storage.datasets.kartothek.select import Partition, SelectedTable, index_pairs, own_pairs
from odf_storage.stores.ports.keyed import KeyedContent

VALUES, LABELS = 45_000, 3
FOOTER_BYTES = 65 * 1024
"""Arrow reads 64 KiB at the end of a file at once."""


class Counted(io.BytesIO):
    """A file that says how many bytes were read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.count += len(found)
        return found


class OneFile:
    """A store of one file."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.last = raw, Counted()

    def open(self, _key: str) -> BinaryIO:
        self.last = Counted(self.raw)
        return self.last


def table_of(values: pa.Array) -> tuple[SelectedTable, OneFile]:
    labels = [f"b{at:08}" for at in range(LABELS)]
    parts = [
        pairs_of(values.take(pa.array(range(at, len(values), 2))), label)
        for at, label in enumerate(labels)
    ]
    store = OneFile(encode_index("c", pa.concat_tables(parts)))
    state = State(uuid="u", partitions={}, partition_keys=(), indices={"c": "u/i"}, metadata={})
    found = FoundState(state_keys("u")[0], KeyedContent(b"", "", Instant(0)), state)
    partitions = tuple(Partition(label=each, key=each, values={}) for each in labels)
    schema = pa.schema([("c", values.type)])
    made = SelectedTable(
        store=store,  # type: ignore[arg-type]
        found=found,
        name="table",
        schema=schema,
        partition_keys=(),
        partitions=partitions,
    )
    return made, store


def found_by(table: SelectedTable, term: Term, *, is_ours: bool) -> set[tuple[Any, str]]:
    known = pa.array([each.label for each in table.partitions], pa.string())
    found: set[tuple[Any, str]] = set()
    column_type = table.schema.field("c").type
    ours = own_pairs(table.store, "u/i", term, column_type, known)
    for pairs in ours if is_ours else index_pairs(table, "c", known, [term]):
        values, labels = pairs[VALUE].to_pylist(), pairs[LABEL].to_pylist()
        found.update(zip(values, labels, strict=True))
    return found


FIRST = datetime(1969, 1, 1, tzinfo=UTC)
KINDS: dict[str, pa.Array] = {
    "integer": pa.array(range(-VALUES // 2, VALUES // 2), pa.int64()),
    "unsigned": pa.array([2**63 - 20_000 + at for at in range(VALUES)], pa.uint64()),
    "float": pa.array([at / 7 - 3000 for at in range(VALUES)], pa.float64()),
    "text": pa.array([f"{at % 7}Ä{at}" for at in range(VALUES)]),
    "long text": pa.array(["x" * 5000 + str(at) for at in range(10_003)]),
    "date": pa.array([date(1969, 1, 1) + timedelta(days=at) for at in range(VALUES)]),
    "timestamp": pa.array(
        [FIRST + timedelta(hours=at) for at in range(VALUES)], pa.timestamp("us", "UTC")
    ),
    "local": pa.array(
        [FIRST.replace(tzinfo=None) + timedelta(hours=at) for at in range(VALUES)],
        pa.timestamp("us"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_row_groups_that_are_left_out_hold_no_pair_of_the_answer(kind: str) -> None:
    values = KINDS[kind]
    table, _ = table_of(values)
    chance = random.Random(kind)
    for op in (Op.EQUAL, Op.EQUAL, Op.IN, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL):
        at = chance.choice([0, len(values) - 1, 9_999, 10_000, chance.randrange(len(values))])
        value = [values[at], values[0]] if op is Op.IN else values[at]
        term = Term("c", op, value)
        everything = found_by(table, term, is_ours=False)
        assert everything or op not in (Op.EQUAL, Op.IN)
        assert found_by(table, term, is_ours=True) == everything
    ends = sorted(values.to_pylist())
    beyond = Term("c", Op.LESS, pa.scalar(ends[0], values.type))
    assert found_by(table, beyond, is_ours=True) == set()


def test_one_value_costs_a_footer_and_one_row_group() -> None:
    values = pa.array([f"city {at:06}" for at in range(100_000)])
    table, store = table_of(values)
    assert found_by(table, Term("c", Op.EQUAL, "zzz"), is_ours=True) == set()
    footer = store.last.count
    assert footer < FOOTER_BYTES
    assert found_by(table, Term("c", Op.EQUAL, "city 054321"), is_ours=True)
    assert store.last.count - footer < len(store.raw) * 0.12  # one of ten
    assert found_by(table, Term("c", Op.EQUAL, "city 054321"), is_ours=False)
    assert store.last.count > len(store.raw) * 0.9
