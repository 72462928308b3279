"""Headers of later files that name the declared columns with another unit."""

from __future__ import annotations

from unicodedata import normalize

import pytest

from odf_protocol.sources.csv_header import HeaderMismatch, distinct_names, match
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


def test_names_that_stand_twice_or_are_blank_are_told_apart_as_in_the_first_file() -> None:
    declared = ("column_1", "x", "id", "x_2")
    assert distinct_names(("", "x", "id", "x")) == declared
    assert match(("", "x", "id", "x"), declared).in_order
    assert match(("", "id", "x", "x"), declared).order == (0, 2, 1, 3)
    with pytest.raises(HeaderMismatch):
        match(("x", "id", "x", ""), declared)


@pytest.mark.parametrize("header", [("id", "x", "x"), ("id", "x", "X"), ("id", "x ", "x")])
def test_a_name_that_stands_twice_is_no_other_column(header: tuple[str, ...]) -> None:
    with pytest.raises(HeaderMismatch, match="stands in the header twice"):
        match(header, ("id", "x", "y"))


def test_names_that_differ_in_case_only_keep_their_order() -> None:
    declared = distinct_names(("id", "Name", "name"))
    assert declared == ("id", "Name", "name_2")
    assert match(("id", "Name", "name"), declared).in_order
    with pytest.raises(HeaderMismatch, match="differ in case only"):
        match(("id", "name", "Name"), declared)


def test_an_accent_may_be_a_part_of_its_letter_or_not() -> None:
    declared = ("größe", "höhe")
    for form in ("NFC", "NFD"):
        written = tuple(normalize(form, name) for name in declared)
        assert match(written, declared).renamed == ()
        assert match(written[::-1], declared).order == (1, 0)
    assert distinct_names(("é", normalize("NFD", "é"))) == ("é", normalize("NFD", "é") + "_2")
