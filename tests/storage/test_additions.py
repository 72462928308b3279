"""A look at one column tells which slices only add rows, in every layout that a slice may have."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf_protocol.multihash import Multihash
from odf_storage.datasets.read import additions
from odf_storage.datasets.read.additions import only_adds
from odf_storage.datasets.read.scan import UnreadableSlice

NAME = Multihash.of(b"a slice")
FORMS = (
    pa.int8(),
    pa.uint8(),
    pa.int32(),
    pa.int64(),
    pa.dictionary(pa.int32(), pa.int32()),
)


def slice_of(operations: list[int | None], form: pa.DataType, group: int) -> io.BytesIO:
    sink = io.BytesIO()
    plain = pa.array(operations, getattr(form, "value_type", form))
    held = plain.dictionary_encode() if pa.types.is_dictionary(form) else plain
    table = pa.table({"other": pa.array(range(len(operations))), "op": held})
    pq.write_table(table, sink, row_group_size=group)
    sink.seek(0)
    return sink


@given(
    st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, None]), max_size=40),
    st.sampled_from(FORMS),
    st.integers(1, 20),
    st.sampled_from([0, additions.HELD_BYTES]),
)
def test_a_slice_only_adds_if_each_operation_is_that_of_an_added_row(
    operations, form, group, held
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additions, "HELD_BYTES", held)
        found = only_adds(slice_of(operations, form, group), "op", NAME)
    assert found == all(each == 0 for each in operations)


def test_a_slice_without_operations_takes_nothing_back() -> None:
    assert only_adds(slice_of([1, 2], pa.int32(), 9), "operation", NAME)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(20) + b"PAR1", b"a,b\n1,2\n"])
def test_a_file_that_is_no_slice_is_refused_by_its_name(content) -> None:
    with pytest.raises(UnreadableSlice, match=str(NAME)):
        only_adds(io.BytesIO(content), "op", NAME)
