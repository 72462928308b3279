"""The layout as tests: floors, packages without circles, one package in each folder of code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import grimp
import pytest
from tests.architecture.flows import RUN, WALKS

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "conformance", "migrations", "protocol", "storage", "workers")
PACKAGES = {room: f"odf_{room}" for room in ROOMS} | {"app": "odf_node"}
BESIDE = {"__init__", "errors", "features", "main", "settings", "wiring"}
"""Modules that may lie beside packages: where a program begins, what it is told, what it says."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES.values(), cache_dir=None)


def test_packages_beside_each_other_form_no_circle(graph):
    parents = {each.rpartition(".")[0] for each in graph.modules if "." in each}
    assert {parent: knot for parent in parents if (knot := _knot(graph, parent))} == {}


def test_use_cases_are_never_handed_the_whole_node(graph):
    service = "odf_node.service"
    users = graph.find_modules_that_directly_import(f"{service}.wiring")
    beside = (f"applications.{each}" for each in ("framework", "queries_alone"))
    applications = {f"{service}.{each}" for each in ("main", *beside)}
    assert {each for each in users if each.startswith(service)} == applications
    pages = graph.find_children(f"{service}.parts")
    users = set().union(*map(graph.find_modules_that_directly_import, pages))
    assert users - pages == {f"{service}.wiring"}


def _knot(graph: grimp.ImportGraph, parent: str) -> set[str]:
    """Names of those below `parent` that lie on a circle of imports."""
    edges = _edges(graph, parent)
    reached = {start: _reached(edges, start) for start in edges}
    return {start for start, ends in reached.items() if start in ends}


def _edges(graph: grimp.ImportGraph, parent: str) -> dict[str, set[str]]:
    prefix = f"{parent}."
    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        if module.startswith(prefix):
            start = module.removeprefix(prefix).partition(".")[0]
            for end in graph.find_modules_directly_imported_by(module):
                name = end.removeprefix(prefix).partition(".")[0]
                if end.startswith(prefix) and name != start:
                    edges[start].add(name)
    return dict(edges)


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(edges[start])
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(edges.get(name, ()))
    return seen


def test_no_module_lies_loose_beside_packages():
    loose = set()
    for room in ("app", "storage", "workers"):
        for init in (ROOT / room).rglob("__init__.py"):
            folder = init.parent
            if any((each / "__init__.py").exists() for each in folder.iterdir() if each.is_dir()):
                names = {each.stem for each in folder.glob("*.py")} - BESIDE
                loose |= {(folder / name).relative_to(ROOT).as_posix() for name in names}
    assert loose == set()


def test_everything_is_imported_by_its_one_name():
    by_folder = re.compile(rf"^\s*(from|import) ({'|'.join(ROOMS)})\b", re.MULTILINE)
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    names = listed.stdout.split() or [
        path.relative_to(ROOT).as_posix()
        for top in (*ROOMS, "benchmarks", "examples", "tests")
        for path in (ROOT / top).rglob("*.py")
    ]
    around = [name for name in names if by_folder.search((ROOT / name).read_text())]
    assert around == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_of_code_holds_one_package_with_types_and_nothing_else(room):
    inside = {each.name for each in (ROOT / room).iterdir()} - {"__pycache__"}
    assert inside == {PACKAGES[room]}
    assert (ROOT / room / PACKAGES[room] / "py.typed").exists()


def test_the_tree_has_no_links_which_a_zip_would_lose():
    listed = subprocess.run(
        ["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


@pytest.mark.parametrize("name", WALKS)
def test_a_reader_follows_a_flow_by_few_files(name):
    files = WALKS[name].files()
    assert len(files) <= (WALKS[name].most or len(files))
    known = [f"/{each.relative_to(ROOT)}" for room in ROOMS for each in (ROOT / room).rglob("*.py")]
    assert [one for one in files if not any(each.endswith(f"/{one}") for each in known)] == []


def test_a_flow_runs_no_more_files_than_it_did():
    least = _run_files()
    assert least.keys() == RUN.keys()
    for _ in range(3):  # on a busy machine, what a node does in the background may fall into a flow
        if all(least[name] <= RUN[name] for name in RUN):
            break
        again = _run_files()
        least = {name: min(count, again[name]) for name, count in least.items()}
    assert {name: count for name, count in least.items() if count > RUN[name]} == {}


def _run_files() -> dict[str, int]:
    places = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    done = subprocess.run(  # a process of its own: it looks into every call
        [sys.executable, ROOT / "tests" / "architecture" / "flows.py", "--json"],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
