"""The mutations: patches that each take one protection out, and the tests that notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "mutations"
THREAT = re.compile(r"T\d{1,2}")


class BadMutation(ValueError):
    """A patch file whose head does not say what it has to."""


@dataclass(frozen=True)
class Mutation:
    """One patch: the threat it opens, and the tests (pytest ids) that fail with it."""

    name: str
    threat: str
    tests: tuple[str, ...]
    takes_out: str
    path: Path


def read_mutation(path: Path) -> Mutation:
    """The mutation of a patch file. Raises `BadMutation`."""
    head = path.read_text().partition("\ndiff --git ")[0]
    facts: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if colon and key in {"Threat", "Tests", "Takes out"}:
            facts[key] = value.strip()
    missing = [key for key in ("Threat", "Tests", "Takes out") if not facts.get(key)]
    if missing:
        raise BadMutation(f"{path.name} does not say: {', '.join(missing)}")
    if not THREAT.fullmatch(facts["Threat"]) or not path.name.startswith(facts["Threat"] + "-"):
        raise BadMutation(f"{path.name} is not named after its threat {facts['Threat']}")
    tests = tuple(facts["Tests"].split())
    return Mutation(path.stem, facts["Threat"], tests, facts["Takes out"], path)


def mutations() -> list[Mutation]:
    """All of them, by number of threat and name. Raises `BadMutation`."""
    found = [read_mutation(path) for path in FOLDER.glob("*.patch")]
    return sorted(found, key=lambda each: (int(each.threat[1:]), each.name))
