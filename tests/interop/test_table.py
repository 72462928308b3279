"""docs/conformance.md, held to what is played."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mimic import CHECKS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/conformance.md").read_text()
ROW = re.compile(r"^\| ([A-Z]\d\d) \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = {
    number: (what, where)
    for number, what, where in ROW.findall(PAGE.split("## Scenarios")[1].split("## Differences")[0])
}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


KARTOTHEK = re.compile(r"^\| Kartothek A(\d+) \| .+ \| (.+) \|$", re.MULTILINE)


def checked() -> set[str]:
    return {number for one in CHECKS for number in one.id.split()}


def marked() -> dict[str, set[tuple[str, str]]]:
    """Scenarios by the tests that carry their mark."""
    found: dict[str, set[tuple[str, str]]] = {}
    for module in (ROOT / "tests").glob("*/test_*.py"):
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and "scenario" in ast.unparse(mark.func):
                        path = module.relative_to(ROOT).as_posix()
                        found.setdefault(ast.literal_eval(mark.args[0]), set()).add(
                            (path, node.name)
                        )
    return found


def test_every_scenario_that_is_played_is_listed():
    assert checked() | set(marked()) <= set(ROWS)


def test_what_is_listed_as_a_check_is_one_and_the_other_way_round():
    assert {number for number, (_, where) in ROWS.items() if "check" in where.split(",")[0]} == (
        checked()
    )


def test_tests_that_are_named_exist():
    named = {(path, name) for _, where in ROWS.values() for path, name in NAMED.findall(where)}
    missing = {
        (path, name) for path, name in named if f"def {name}(" not in (ROOT / path).read_text()
    }
    assert missing == set()
    assert len(named) > 20


def test_every_test_that_is_named_carries_the_mark_of_its_scenario():
    named = {
        (number, path, name)
        for number, (_, where) in ROWS.items()
        for path, name in NAMED.findall(where)
    }
    carried = {(number, *test) for number, tests in marked().items() for test in tests}
    through_checks = {"test_a_node_with_its_objects_in_a_bucket_conforms"}
    assert named - carried == set()
    assert {one for one in carried - named if one[2] not in through_checks} == set()


def test_what_must_be_played_is():
    """Priorities M and S of the scenarios, as far as they are on this page."""
    missing = {number for number, (_, where) in ROWS.items() if where == "–"}
    assert {number for number in missing if number[0] not in "FGJ"} == set()
    assert missing & {"J03", "J04", "J05", "J06", "J07", "J08"} == set()


def test_every_line_says_where_or_that_it_is_not_offered():
    nowhere = {number for number, (_, where) in ROWS.items() if where == "–"}
    assert nowhere == {
        number for number, (what, _) in ROWS.items() if what.startswith("not offered")
    }
    assert {number[0] for number in ROWS} == set("ABCDEFGHIJKLMQUZ")


def test_every_example_of_the_kartothek_page_names_tests_that_exist():
    rows = KARTOTHEK.findall(PAGE)
    assert [int(number) for number, _ in rows] == list(range(1, 15))
    named = [test for _, where in rows for test in NAMED.findall(where)]
    assert len(named) == sum(where.count("::") for _, where in rows)
    assert [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []
