"""Byte ranges: which bytes of an object a header asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf_node.service.http.answers import MAX_RANGES, Span, Unsatisfiable, parse_ranges


def test_forms_of_a_range():
    for header, spans in (
        ("bytes=0-0", [(0, 1)]),
        ("bytes=2-5", [(2, 4)]),
        ("bytes=7-", [(7, 3)]),
        ("bytes=-3", [(7, 3)]),
        ("bytes=-100", [(0, 10)]),
        ("bytes=5-999999999999999999", [(5, 5)]),
        ("Bytes=1-1", [(1, 1)]),
        ("bytes=0-1,,\t4-5 ,", [(0, 2), (4, 2)]),
        ("bytes=4-5,0-1", [(4, 2), (0, 2)]),
        ("bytes=4-5,20-30,0-1", [(4, 2), (0, 2)]),
        ("bytes=0-4,4-5", [(0, 6)]),
    ):
        assert parse_ranges(header, 10) == tuple(Span(*span) for span in spans)


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes", "bytes=", "bytes=,", "bytes=-", "bytes=3-2", "bytes=a-b", "rows=0-1",
     "bytes=0-1;2-3", "bytes=1-2,x", "bytes=+1-2", "bytes=1- 2", "bytes=٣-٤",
     "bytes=" + "9" * 20 + "-", "bytes=" + ",".join(["0-0"] * (MAX_RANGES + 1)),
     "bytes=" + " " * 5000 + "0-0"],
)  # fmt: skip
def test_what_is_no_set_of_ranges_asks_for_the_whole(header):
    assert parse_ranges(header, 10) == ()


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=11-,99-"])
def test_ranges_of_which_nothing_exists_are_unsatisfiable(header):
    with pytest.raises(Unsatisfiable):
        parse_ranges(header, 10)


def test_an_empty_object_has_no_range():
    with pytest.raises(Unsatisfiable):
        parse_ranges("bytes=0-0", 0)


_RANGES = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 60), st.integers(0, 60)).map(
            lambda ends: f"{min(ends)}-{max(ends)}"
        ),
        st.integers(0, 60).map(lambda first: f"{first}-"),
        st.integers(0, 60).map(lambda length: f"-{length}"),
    ),
    min_size=1,
    max_size=8,
)


@given(_RANGES, st.integers(0, 50))
def test_exactly_the_bytes_asked_for_are_sent_and_none_twice(ranges, size):
    wanted = set()
    for text in ranges:
        first, _, last = text.partition("-")
        if first:
            wanted |= set(range(int(first), min(int(last) + 1 if last else size, size)))
        else:
            wanted |= set(range(max(0, size - int(last)), size))
    try:
        spans = parse_ranges("bytes=" + ",".join(ranges), size)
    except Unsatisfiable:
        assert not wanted
        return
    sent = [at for span in spans for at in range(span.start, span.end)]
    assert len(sent) == len(set(sent))
    assert set(sent) == wanted


@given(st.text(max_size=40), st.integers(0, 50))
def test_no_header_makes_it_fail_otherwise(header, size):
    try:
        spans = parse_ranges("bytes=" + header, size)
    except Unsatisfiable:
        return
    assert all(0 <= span.start < span.end <= size for span in spans)
