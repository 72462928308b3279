"""Text becomes a value of its type, or is refused: no form and no size in between is guessed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf_workers.readers.values import text as texts_of
from odf_workers.readers.values.text import BadValue, cast_text, parse_one

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
        ("2020-01-01 00", UTC_MS),
        ("2020-01-01 00:60", UTC_MS),
        ("1e400", pa.float64()),
        ("3.4028235677973367e38", pa.float32()),
        ("0000-01-01", UTC_MS),
        ("0000-12-31T23:59:59Z", UTC_MS),
        ("0001-01-01T00:00:00+05:00", UTC_MS),
        ("9999-12-31T23:59:59-05:00", UTC_MS),
        ("0000-12-31", pa.date32()),
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


_NUMBERS = st.text("0123456789+-.eE infINFty", max_size=7) | st.sampled_from(
    [
        *("16777217.0000000001", "3.4028235677973366e38", "2049.0000000000000001", "65519.9999"),
        *("1.00000017881393432617187500001", "7.006492321624085e-46", "1e39", "1e400", "1e-400"),
        *("9" * 19, "9" * 39, "0" * 40 + "5", f"-{'9' * 18}.995", "\t12\n"),
    ]
)
_TIMES = st.builds(
    "{}-{:02}-{:02}{}{}{}".format,
    st.sampled_from(["0000", "0001", "1677", "1969", "2020", "2262", "9999"]),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(["", "", " 00:00:00", "T23:59:59", "T23:59:60", "T24:00:00", " 1:00:00"]),
    st.sampled_from(["", ".1", ".123", ".1239999"]),
    st.sampled_from(["", "Z", "+01:00"]),
)
_OTHERS = st.sampled_from(
    ["", "true", "False", "TRUE", "yes", "12:00:00", "12:00:00.5", "24:00:00"]
)


@pytest.mark.parametrize(
    "wanted",
    [
        *(pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.decimal128(10, 2), pa.decimal128(38, 10), pa.decimal128(10, -2)),
        *(pa.timestamp("s", "UTC"), UTC_MS, pa.timestamp("us"), UTC_NS, pa.date32(), pa.date64()),
        *(pa.time64("us"), pa.bool_(), pa.string(), pa.large_string(), pa.null()),
    ],
    ids=str,
)
@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.none() | _NUMBERS | _TIMES | _OTHERS, max_size=5))
def test_a_column_has_the_same_values_however_many_they_are(
    wanted: pa.DataType, texts: list[str | None]
) -> None:
    for column in (texts, *([each] for each in texts)):
        assert _came(column, wanted, few=0) == _came(column, wanted, few=100), column


def _came(column: Sequence[str | None], wanted: pa.DataType, few: int) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_of, "FEW", few)
        try:
            return str(cast_text(pa.array(column, pa.string()), wanted))
        except BadValue as bad:
            return f"{bad.index}: {bad.value}"


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("16777217.0000000001", pa.float32(), 16777218.0),
        ("16777216.9999999999", pa.float32(), 16777216.0),
        ("16777217", pa.float32(), 16777216.0),
        ("3.4028235677973366e38", pa.float32(), float(np.finfo(np.float32).max)),
        ("2049.0000000000000001", pa.float16(), 2050.0),
        ("-2049.0000000000000001", pa.float16(), -2050.0),
        ("2048.9999999999999999", pa.float16(), 2048.0),
    ],
)
def test_a_number_of_a_narrow_type_is_rounded_once(
    text: str, wanted: pa.DataType, value: float
) -> None:
    assert cast_text(pa.array([text]), wanted).to_pylist() == [value]


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-31T23:30:00-05:00",
        "2025-01-31T00:30:00+02:00",
        "2025-01-31 23:30:00 America/New_York",
        "20250131T233000-0500",
        "2025-01-31T23:30:00Z",
    ],
)
def test_the_day_of_a_time_is_the_one_that_is_written(text: str) -> None:
    assert str(cast_text(pa.array([text]), pa.date32())[0]) == "2025-01-31"


@pytest.mark.parametrize("text", ["2025-01-31T23:30:00+25:00", "2025-01-31T23:30 Europe/Atlantis"])
def test_a_day_with_a_zone_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        cast_text(pa.array([text]), pa.date32())


@pytest.mark.parametrize("zone", ["CET", "MET", "EET", "WET"])
def test_a_name_of_winter_time_is_no_zone_in_summer(zone: str) -> None:
    wanted = pa.timestamp("ms", "UTC")
    assert cast_text(pa.array([f"2025-01-31T12:00 {zone}"]), wanted).null_count == 0
    with pytest.raises(BadValue):
        cast_text(pa.array([f"2025-07-31T12:00 {zone}"]), wanted)
