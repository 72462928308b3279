"""Attribute maps as canonical text, by known answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known import name_of, vectors
from strategies import json_values

from odf_protocol.metadata.attributes import (
    MAX_BYTES,
    MAX_DEPTH,
    Attributes,
    MalformedAttributes,
    canonical_json,
)


@pytest.mark.parametrize("vector", vectors("text-forms", "json-text"), ids=name_of)
def test_a_value_has_the_known_text(vector):
    assert canonical_json(vector["value"]) == vector["text"]
    assert Attributes(vector["text"]).value == vector["value"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (1e-5, "0.00001"),
        (1e-6, "1e-6"),
        (0.1, "0.1"),
        (-2.5e-7, "-2.5e-7"),
        (-0.0, "-0.0"),
        (9007199254740993.0, "9007199254740992.0"),
        (5e-324, "5e-324"),
        (True, "true"),
    ],
)
def test_numbers_are_spelled_as_reference_writers_do(value, text):
    assert canonical_json(value) == text


def test_keys_are_sorted_by_their_bytes_not_by_their_quoted_text():
    assert canonical_json({"a!": 1, "a": 2, 'a"': 3, "ﬀ": 4, "😀": 5}) == (
        '{"a":2,"a!":1,"a\\"":3,"ﬀ":4,"😀":5}'
    )


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), json_values))
def test_canonical_text_reads_back(value):
    assert json.loads(canonical_json(value)) == value


def _nested(levels: int):
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**64},
        {"a": -(2**63) - 1},
        {"a": 10**5000},
        {"a": b"bytes"},
        {1: "a"},
        {"\ud800": 1},
        {"a": "\ud800"},
        {"a": _nested(MAX_DEPTH)},
    ],
)
def test_values_json_cannot_carry_are_refused(value):
    with pytest.raises(MalformedAttributes):
        Attributes.of(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":Infinity}',
        "{",
        '{"a":' * 100_000,
        '{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}",
        '{"a":' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:20],
)
def test_received_text_that_is_no_map_is_refused(text):
    with pytest.raises(MalformedAttributes):
        _ = Attributes(text).value


def test_nesting_is_allowed_up_to_the_limit_both_ways():
    text = Attributes.of({"a": _nested(MAX_DEPTH - 1)}).text
    assert Attributes(text).value == {"a": _nested(MAX_DEPTH - 1)}


def test_a_map_may_have_a_mebibyte_of_text_and_no_more():
    fits = "ü" * ((MAX_BYTES - len('{"a":""}')) // 2)
    assert Attributes(Attributes.of({"a": fits}).text).value == {"a": fits}
    with pytest.raises(MalformedAttributes):
        Attributes.of({"a": fits + "x"})
    with pytest.raises(MalformedAttributes):
        Attributes(f'{{"a":"{fits}x"}}').check()


def test_received_text_is_kept():
    assert Attributes('{"a":1e16,"A":1}').text == '{"a":1e16,"A":1}'
    assert Attributes('{"a":1e16}') != Attributes.of({"a": 1e16})
