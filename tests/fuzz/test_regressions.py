"""What fuzzing starts from and what it found, replayed without a fuzzer."""

from __future__ import annotations

import pytest
from tests.fuzz.catalog import CRASHES, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_known_answers_do_no_harm(name: str) -> None:
    seeds = list(TARGETS[name].seeds())
    assert seeds
    for seed in seeds:
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_what_once_crashed_does_no_more(name: str) -> None:
    for find in sorted((CRASHES / name).glob("*")):
        TARGETS[name].run(find.read_bytes())
