"""Ports: an interface stands beside a class only where something else may take its place."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from tests.architecture.figures import ROOT, bases_of, classes_of, modules

MOST, MOST_IN_STORAGE = 40, 20
ALONE = {
    "dataset.DatasetStores": "`Stores` makes datasets, so these are below it and cannot name it",
    "healing.HealingStores": "as `DatasetStores`, for integrity, which datasets are made of",
    "objects.PartialUploads": "what an object store may have besides; ports are below the stores",
    "session.Spark": "the other adapter is a `SparkSession`",
}
"""Ports with one adapter of ours, and why they stand."""


class Classes:
    """The classes of a tree by the file and name, with what they inherit."""

    def __init__(self, files: list[Path]) -> None:
        self._trees = {file: ast.parse(file.read_text()) for file in files}
        self._members: dict[tuple[Path, str], frozenset[str]] = {}
        self._origins: dict[Path, dict[str, str]] = {}

    @cached_property
    def nodes(self) -> dict[tuple[Path, str], ast.ClassDef]:
        return {(f, c.name): c for f, tree in self._trees.items() for c in classes_of(tree)}

    @cached_property
    def _named(self) -> dict[str, list[tuple[Path, str]]]:
        found = defaultdict(list)
        for file, name in self.nodes:
            found[name].append((file, name))
        return found

    def _origin(self, file: Path, name: str) -> str | None:
        """The module that the file has the name from; None of one of its own."""
        if file not in self._origins:
            self._origins[file] = {
                each.name: (node.module or "").rpartition(".")[2]
                for node in ast.walk(self._trees[file])
                if isinstance(node, ast.ImportFrom)
                for each in node.names
            }
        return self._origins[file].get(name)

    def members(self, key: tuple[Path, str]) -> frozenset[str]:
        """Names that the class declares, assigns or inherits."""
        if key not in self._members:
            self._members[key] = frozenset(self._found(key))
        return self._members[key]

    def _found(self, key: tuple[Path, str]) -> Iterator[str]:
        file, node = key[0], self.nodes[key]
        yield from _declared(node)
        for base in bases_of(node) - {"Protocol", node.name}:
            stem = self._origin(file, base)
            for other in self._named[base]:
                if other[0] == file if stem is None else other[0].stem == stem:
                    yield from self.members(other)


def _declared(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield part.name
            yield from (
                each.attr
                for each in ast.walk(part)
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
            )
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            yield from (n.id for each in targets for n in ast.walk(each) if isinstance(n, ast.Name))


def _asked(names: frozenset[str]) -> set[str]:
    return {each for each in names if not each.startswith("__")}


@pytest.fixture(scope="module")
def ours() -> Classes:
    return Classes(list(modules()))


def ports(ours: Classes) -> set[tuple[Path, str]]:
    return {key for key, node in ours.nodes.items() if "Protocol" in bases_of(node)}


def test_a_port_stands_where_there_are_two_adapters(ours):
    """Adapters: classes of ours that could be handed over as this port."""
    classes = ours.nodes.keys() - ports(ours)
    adapters = {
        f"{port[0].stem}.{port[1]}": sum(
            _asked(ours.members(port)) <= ours.members(each) for each in classes
        )
        for port in ports(ours)
    }
    assert {name for name, found in adapters.items() if found < 2} == ALONE.keys()


def test_there_are_few_ports(ours):
    found = ports(ours)
    in_storage = [port for port in found if port[0].is_relative_to(ROOT / "storage")]
    assert len(in_storage) <= MOST_IN_STORAGE
    assert len(found) <= MOST
