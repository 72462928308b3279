"""Headers of later files that name the declared columns with another unit."""

from __future__ import annotations

import pytest

from odf_protocol.sources.csv_header import HeaderMismatch, match
from odf_protocol.sources.source_options import HeaderRule

DECLARED = ("station", "temp (°C)", "speed [km/h]")


@pytest.mark.parametrize(
    "header",
    [
        ("station", "temp (°F)", "speed [km/h]"),
        ("station", "Temp(K)", "speed [km/h]"),
        ("station", "temp (°C)", "speed [m/s]"),
        ("station", "temp [°F]", "speed [km/h]"),
        ("station", "temp ()", "speed [km/h]"),
    ],
)
def test_a_name_with_another_unit_is_no_other_name_of_the_column(header: tuple[str, ...]) -> None:
    with pytest.raises(HeaderMismatch, match="another unit"):
        match(header, DECLARED)
    assert match(header, DECLARED, HeaderRule.POSITION).renamed == ()


@pytest.mark.parametrize(
    "header",
    [
        ("station", "temp (°C)", "speed [km/h]"),
        ("STATION", "temp ( °C )", "Speed [KM/H]"),
        ("station", "temp", "speed [km/h]"),
        ("station", "(°F)", "speed [km/h]"),
        ("station", "air (°F)", "speed [km/h]"),
        ("station", "temp °F)", "speed (km/h]"),
    ],
)
def test_other_names_are_taken_by_position_with_a_warning(header: tuple[str, ...]) -> None:
    found = match(header, DECLARED)
    assert found.in_order
    assert len(found.renamed) == sum(
        theirs.casefold() != ours.casefold() for theirs, ours in zip(header, DECLARED, strict=True)
    )


def test_a_long_name_of_brackets_is_read_once() -> None:
    long = "(" * 100_000 + ")"
    assert match((long, "b"), ("a", "b")).renamed == ((long, "a"),)
