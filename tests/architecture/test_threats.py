"""The page of threats is held to the tests and mutations by name."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from mutations import ROOT, mutations

PAGE = ROOT / "docs" / "threat-model.md"
NOTHING = "–"
THREATS = [f"T{number}" for number in range(1, 52)]


CONTRACTS = "".join(path.read_text() for path in (ROOT / "tests/conformance").glob("*.py"))
"""Suites whose tests the file that is named runs on an adapter."""


def read(file: str) -> str:
    path = ROOT / file
    return path.read_text() if path.is_file() else ""


class Threat(NamedTuple):
    """A row of the page."""

    number: str
    promise: str
    tests: list[str]
    not_promised: str


def _threats() -> list[Threat]:
    rows = re.findall(
        r"^\| (T\d+) \| [^|]+ \| ([^|]+) \| ([^|]*) \| ([^|]+) \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    return [
        Threat(number, promise.strip(), re.findall(r"`([^`]+)`", tests), other.strip())
        for number, promise, tests, other in rows
    ]


def test_every_threat_has_a_row_and_says_what_is_or_is_not_promised():
    threats = _threats()
    assert [each.number for each in threats] == THREATS
    for each in threats:
        assert each.promise != NOTHING or each.not_promised != NOTHING, each.number


@pytest.mark.parametrize("threat", _threats(), ids=lambda each: each.number)
def test_what_is_promised_has_a_test_and_a_mutation_that_it_notices(threat):
    if threat.promise == NOTHING:
        assert not threat.tests
        return
    assert threat.tests
    for test in threat.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert not name or any(f"def {name}(" in text for text in (read(file), CONTRACTS)), test
    assert any(each.threat == threat.number for each in mutations()), "no mutation"
