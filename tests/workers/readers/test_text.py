"""Text becomes a value of its type, or is refused: no form and no size in between is guessed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from odf_node.workers.readers.text import BadValue, cast_text, parse_one

pytestmark = pytest.mark.usefixtures("whichever_is_quicker")

UTC_MS, UTC_NS = pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC")
NINES = "9" * 38


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        (NINES, pa.decimal128(38, 0), Decimal(NINES)),
        (f"-{NINES}", pa.decimal128(38, 0), Decimal(f"-{NINES}")),
        ("0" * 50 + "1", pa.decimal128(38, 0), Decimal(1)),
        ("." + "0" * 40 + "9", pa.decimal128(38, 37), Decimal("0E-37")),
        ("3.5e37", pa.decimal128(38, 0), Decimal("3.5e37")),
        ("1e-3", pa.decimal128(10, 2), Decimal("0.00")),
        ("-1.559", pa.decimal128(10, 2), Decimal("-1.55")),
        ("1250", pa.decimal128(10, -2), Decimal("1.2e3")),
        ("9" * 76, pa.decimal256(76, 0), Decimal("9" * 76)),
    ],
)
def test_decimals_keep_what_their_type_holds(
    text: str, wanted: pa.DataType, value: Decimal
) -> None:
    assert cast_text(pa.array([text]), wanted).to_pylist() == [value]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("9" * 39, pa.decimal128(38, 0)),
        ("-" + "9" * 39, pa.decimal128(38, 0)),
        ("3.5e38", pa.decimal128(38, 0)),
        ("1" * 60, pa.decimal128(38, 0)),
        ("9" * 77, pa.decimal256(76, 0)),
        ("1e76", pa.decimal256(76, 0)),
        ("e5", pa.decimal128(10, 2)),
        ("2262-04-12T00:00:00Z", UTC_NS),
        ("1677-09-21", UTC_NS),
        ("0001-01-01 00:00:00.123456789", UTC_NS),
        ("2020-10-25 02:30:00 Europe/Vienna", UTC_MS),
        ("2020-03-29 02:30:00 Europe/Vienna", UTC_MS),
        ("2020-01-01 00:00:00 Middle/Earth", UTC_MS),
        ("2020-01-01 00:00:00 ../../etc/passwd", UTC_MS),
        ("2020-01-01 00:00:00+24:00", UTC_MS),
        ("2020-01-01 00:00", UTC_MS),
        ("01/02/2020", UTC_MS),
        ("1577836800", UTC_MS),
    ],
)
def test_what_does_not_fit_is_refused_and_never_wraps_around(text: str, wanted: Any) -> None:
    with pytest.raises(BadValue) as refused:
        cast_text(pa.array([None, text]), wanted)
    assert (refused.value.index, refused.value.value) == (1, text)


@pytest.mark.parametrize(
    ("characters", "longest", "wanted"),
    [
        ("+-019 ", 4, pa.int8()),
        ("+-019 ", 4, pa.uint64()),
        ("+-0x1f", 4, pa.int64()),
        ("+-.01e", 5, pa.float64()),
        ("+-.1eE ", 4, pa.float32()),
        ("+-nNaAfi", 4, pa.float64()),
    ],
)
def test_a_column_of_numbers_is_read_as_each_of_its_values(
    characters: str, longest: int, wanted: pa.DataType
) -> None:
    texts = [
        "".join(each)
        for length in range(longest + 1)
        for each in itertools.product(characters, repeat=length)
    ]
    for text in [*texts, "inf", "-Infinity", "infin", "nan(1)", "1d", "0x1p3", "\u0661"]:
        assert repr(_or_none(cast_text, pa.array([text]), wanted)) == repr(
            _or_none(lambda *given: pa.array([parse_one(*given)], given[1]), text, wanted)
        ), text


def _or_none(read: Callable[..., pa.Array], *given: Any) -> list[Any] | None:
    try:
        return list(read(*given).to_pylist())
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize(
    ("text", "unit", "count"),
    [
        ("2020-01-01", "ms", 1577836800000),
        ("2020-01-01 01:02:03", "ms", 1577840523000),
        ("2020-01-01T01:02:03.1239", "ms", 1577840523123),
        ("2020-01-01T01:02:03.1239+01:30", "ms", 1577835123123),
        ("2020-01-01T01:02:03 +0130", "ms", 1577835123000),
        ("2020-01-01T01:02:03-01", "ms", 1577844123000),
        ("2020-01-01T01:02:03 UTC", "ms", 1577840523000),
        ("2020-07-01 02:00:00.5 Europe/Vienna", "ms", 1593561600500),
        ("2020-01-01T01:02:03EST", "ms", 1577858523000),
        ("1969-12-31T23:59:59.999Z", "s", -1),
        ("1969-12-31T23:59:59.9999Z", "ms", -1),
        ("1969-12-31T23:59:59.9999Z", "us", -100),
        ("9999-12-31T23:59:59.999999Z", "us", 253402300799999999),
    ],
)
def test_times_are_cut_to_their_unit_and_moved_to_utc(text: str, unit: str, count: int) -> None:
    for zone in ("UTC", None):
        found = cast_text(pa.array([text]), pa.timestamp(unit, zone))
        assert found.cast(pa.int64()).to_pylist() == [count]


@pytest.mark.parametrize(
    "form", ["2020-01-0{}T00:00:0{}Z", "2020-01-0{} 0{}:00:00", "202{}-10-1{}"]
)
def test_a_column_of_times_of_one_form_is_read_as_each_of_its_values(form: str) -> None:
    good = [form.format(one, two) for one in range(1, 10) for two in range(10)]
    for odd in ("", form.format("x", 1), form.format(1, ":"), form.format(1, 1)[:-1], None):
        for texts in ([*good, odd], [odd, *good], good[3:]):
            each = _or_none(
                lambda *given: pa.array(map(_parse_or_none, given[0]), given[1]), texts, UTC_MS
            )
            assert _or_none(cast_text, pa.array(["skipped", *texts]).slice(1), UTC_MS) == each


def _parse_or_none(text: str | None) -> int | None:
    return None if text is None else parse_one(text, UTC_MS)
