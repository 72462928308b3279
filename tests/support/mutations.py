"""The mutations: each takes one protection out, and names the tests that notice.

A file of `tests/mutations` says what it is about in its head, then what becomes of which symbol:

    Threat: T1
    Tests: tests/storage/test_objects.py
    Takes out: the check of a file's hash before it appears under its name.

    In: put_hashed
    -        _appearing(path, lambda: check(expected, hashed.result())) as out,
    +        _appearing(path, lambda: None) as out,

A symbol is a function, class, method (`Class.method`) or constant of our packages, wherever its
module lies; or a file. Lines with `-` are replaced by those with `+`; lines
with a blank stay, and are there because the others alone would not be found once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "mutations"
ROOMS = ("app", "conformance", "migrations", "protocol", "storage", "workers")
THREAT = re.compile(r"T\d{1,2}")
FACTS = ("Threat", "Tests", "Takes out")


class BadMutation(ValueError):
    """A file that does not say what it has to, or does not fit the code."""


@dataclass(frozen=True)
class Change:
    """Lines of one symbol, and what they become."""

    symbol: str
    old: str
    new: str

    def place(self) -> tuple[Path, int]:
        """The file, and where in it the lines begin. Raises `BadMutation`."""
        found = [
            (path, start + at)
            for path, start, text in _texts(self.symbol)
            for at in _places(text, self.old)
        ]
        if len(found) != 1:
            files = ", ".join(str(path.relative_to(ROOT)) for path, _ in found) or "nowhere"
            raise BadMutation(f"lines of {self.symbol} must be found once: {files}\n{self.old}")
        return found[0]


@dataclass(frozen=True)
class Mutation:
    """The threat it opens, and the tests (pytest ids) that fail with it."""

    name: str
    threat: str
    tests: tuple[str, ...]
    takes_out: str
    changes: tuple[Change, ...]

    def texts(self) -> dict[Path, str]:
        """The files without the protection. Raises `BadMutation` if it does not fit the code."""
        found: dict[Path, list[tuple[int, Change]]] = {}
        for change in self.changes:
            path, at = change.place()
            found.setdefault(path, []).append((at, change))
        texts = {}
        for path, places in found.items():
            text = path.read_text()
            for at, change in sorted(places, key=lambda each: each[0], reverse=True):
                text = text[:at] + change.new + text[at + len(change.old) :]
            texts[path] = text
        return texts


def _places(text: str, lines: str) -> Iterator[int]:
    """Where these whole lines stand in the text."""
    at = text.find(lines)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            yield at
        at = text.find(lines, at + 1)


def _texts(symbol: str) -> list[tuple[Path, int, str]]:
    """Files that have the symbol, where it begins in them, and its text."""
    path = ROOT / symbol
    return [(path, 0, path.read_text())] if path.is_file() else _symbols().get(symbol, [])


@cache
def _symbols() -> dict[str, list[tuple[Path, int, str]]]:
    found: dict[str, list[tuple[Path, int, str]]] = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            starts = [0]
            for line in text.splitlines(keepends=True):
                starts.append(starts[-1] + len(line))
            for name, first, last in outline(ast.parse(text).body):
                piece = text[starts[first - 1] : starts[last]]
                found.setdefault(name, []).append((path, starts[first - 1], piece))
    return found


def outline(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Yield the names of symbols with their first and last lines, outer ones first."""
    for node in body:
        last = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield prefix + node.name, first, last
            if isinstance(node, ast.ClassDef):
                yield from outline(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node.lineno, last


def read_mutation(path: Path) -> Mutation:
    """The mutation of a file. Raises `BadMutation`."""
    facts: dict[str, str] = {}
    changes: list[Change] = []
    head, *parts = re.split(r"^In: ", path.read_text(), flags=re.MULTILINE)
    for line in head.splitlines():
        key, _, value = line.partition(":")
        if key in FACTS:
            facts[key] = value.strip()
    for part in parts:
        symbol, _, lines = part.partition("\n")
        told = [line for line in lines.splitlines() if line]
        old = [line[1:] + "\n" for line in told if line[0] in " -"]
        new = [line[1:] + "\n" for line in told if line[0] in " +"]
        if not old or any(line[0] not in " -+" for line in told):
            raise BadMutation(f"{path.name}: what becomes of {symbol} is no list of lines")
        changes.append(Change(symbol.strip(), "".join(old), "".join(new)))
    missing = [key for key in FACTS if not facts.get(key)]
    if missing or not changes:
        raise BadMutation(f"{path.name} does not say: {', '.join(missing or ['In'])}")
    if not THREAT.fullmatch(facts["Threat"]) or not path.name.startswith(facts["Threat"] + "-"):
        raise BadMutation(f"{path.name} is not named after its threat {facts['Threat']}")
    tests = tuple(facts["Tests"].split())
    return Mutation(path.stem, facts["Threat"], tests, facts["Takes out"], tuple(changes))


def mutations() -> list[Mutation]:
    """All of them, by number of threat and name. Raises `BadMutation`."""
    found = [read_mutation(path) for path in FOLDER.glob("T*.txt")]
    return sorted(found, key=lambda each: (int(each.threat[1:]), each.name))
