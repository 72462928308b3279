"""One check says which values may be stored, in any layout and at any depth."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest
from bad_values import BAD_COLUMNS, GOOD_ENDS, TEXTS
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.columns.stored_values import first_misfit, readable

COUNT = int(os.environ.get("ODF_TEST_STORED_VALUES", "60"))


@pytest.mark.parametrize("what", BAD_COLUMNS)
def test_a_bad_value_is_found_with_its_row(what: str) -> None:
    column, reason = BAD_COLUMNS[what]
    found = first_misfit("v", column)
    assert found is not None
    assert (found.row, reason in found.reason) == (1, True)
    assert found.column.startswith("v")
    assert first_misfit("v", column.slice(0, 1)) is None
    assert first_misfit("v", column.slice(2)) is None
    shifted = first_misfit("v", column.slice(1))
    assert shifted is not None
    assert shifted.row == 0


@pytest.mark.parametrize("what", GOOD_ENDS)
def test_the_first_and_the_last_value_of_a_range_are_good(what: str) -> None:
    assert first_misfit("v", GOOD_ENDS[what]) is None


def test_the_place_inside_of_a_nested_value_is_named() -> None:
    texts = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), TEXTS)
    inside = pa.StructArray.from_arrays([texts], ["names"])
    found = first_misfit("v", inside)
    assert found is not None
    assert (found.row, found.column, found.value) == (1, "v.names[]", "\\xff\\xfe")
    entries = pa.MapArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), pa.array(["a", "b", "c"]), TEXTS
    )
    in_map = first_misfit("m", entries)
    assert in_map is not None
    assert (in_map.row, in_map.column) == (1, "m.value")


def test_texts_alone_are_judged_where_a_query_may_mend_the_others() -> None:
    for what, (column, reason) in BAD_COLUMNS.items():
        found = first_misfit("v", column, texts_only=True)
        assert (found is not None) == (reason == "no UTF-8"), what


def test_a_null_is_good_whatever_its_slot_holds() -> None:
    offsets, content = TEXTS.buffers()[1:]
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, content])
    assert hidden.null_count == 1
    assert first_misfit("v", hidden) is None


@settings(max_examples=COUNT, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=5), max_size=40), st.data())
def test_texts_are_good_if_python_can_read_them(values: list[bytes | None], data: Any) -> None:
    raw = pa.array(values, pa.binary())
    column = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    start = data.draw(st.integers(0, len(values)))
    bad = [at for at, value in enumerate(values[start:]) if value is not None and not _reads(value)]
    found = first_misfit("v", column.slice(start))
    assert (found and found.row) == (bad[0] if bad else None)


def _reads(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("what", [what for what in BAD_COLUMNS if "text" in what])
def test_texts_become_readable_without_a_change_of_type(what: str) -> None:
    column = BAD_COLUMNS[what][0]
    batch = pa.record_batch({"v": column, "n": [1, 2, 3]})
    for rows in (batch, batch.slice(1)):
        made = readable(rows)
        assert made.schema == rows.schema
        assert first_misfit("v", made.column(0)) is None
        assert "\\\\xff\\\\xfe" in str(made.column(0).to_pylist())
    assert readable(batch.slice(2)).equals(batch.slice(2))


def test_maps_and_lists_become_readable_and_keep_their_nulls() -> None:
    offsets = pa.array([0, None, 1, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, TEXTS)
    maps = pa.MapArray.from_arrays(offsets, TEXTS, TEXTS)
    fixed = pa.FixedSizeListArray.from_arrays(TEXTS, 1)
    made = readable(pa.record_batch({"l": lists, "m": maps, "f": fixed}))
    assert made.column(0).to_pylist() == [["good"], None, ["\\xff\\xfe", "gut für"]]
    pairs = [[("good", "good")], None, [("\\xff\\xfe", "\\xff\\xfe"), ("gut für", "gut für")]]
    assert made.column(1).to_pylist() == pairs
    assert made.column(2).to_pylist() == [["good"], ["\\xff\\xfe"], ["gut für"]]
