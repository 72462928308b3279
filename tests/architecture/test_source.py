"""Rules of the source, as tests: sizes, purposes, doors between rooms, words."""

from __future__ import annotations

import ast
import functools
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "conformance", "protocol", "storage", "workers")
PACKAGES = {room: f"odf_{room}" for room in ROOMS} | {"app": "odf_node"}
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
SETTINGS_MODULES = {"app/odf_node/service/settings.py", "workers/odf_workers/settings.py"}
MEETS_CLASSES = re.compile(
    r"\bmsgspec\.(convert|(json|yaml|msgpack)\.(Decoder\(|decode\([^\n]*type=))"
)
ENVIRONMENT = re.compile(r"\bos\.(environ|getenv)\b")

PUBLIC = "app/odf_node/__init__.py"
"""Imports what a program asks of it when it does."""
MAX_LINES, MAX_FUNCTION = 600, 60
MEDIANS = range(150, 301)
"""Lines of a file in the middle: shorter ones are pieces of a noun, longer ones hard to read."""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


class Outline(NamedTuple):
    """What the rules ask of a module; its tree, which is large, is not kept."""

    purpose: str | None
    holds_logic: bool
    imports: list[tuple[int, str]]
    """From modules that are named in full: line and name."""
    functions: dict[str, int]
    """Lines after the first, by name and place."""


@functools.cache
def _outline(path: Path) -> Outline:
    tree = ast.parse(path.read_text(), str(path))
    imports, functions = [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            imports.append((node.lineno, node.module or ""))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[f"{node.name}:{node.lineno}"] = (node.end_lineno or 0) - node.lineno
    plain = ast.ImportFrom | ast.Import | ast.Assign
    logic = not all(isinstance(node, plain) for node in tree.body[1:])
    return Outline(ast.get_docstring(tree), logic, imports, functions)


def test_the_import_contract_holds():
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_module_opens_with_its_purpose():
    """One test for all modules, as all of these: of one each, most of the time is pytest's."""
    without = {_name(path) for path in MODULES if not (_outline(path).purpose or "").strip()}
    assert without == set()


def test_no_module_is_longer_than_its_limit_and_most_are_of_a_size_to_read():
    sizes = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: n for name, n in sizes.items() if n > MAX_LINES} == {}
    own = [n for name, n in sizes.items() if "__init__" not in name]
    assert int(statistics.median(own)) in MEDIANS


def test_no_function_is_longer_than_its_limit():
    long = {
        f"{_name(path)}:{name}": lines
        for path in MODULES
        for name, lines in _outline(path).functions.items()
        if lines > MAX_FUNCTION
    }
    assert long == {}


def test_classes_are_decoded_through_the_one_door_that_threads_may_use():
    """msgspec ends the process when two threads meet a class at once."""
    around = {
        _name(path)
        for path in MODULES
        if MEETS_CLASSES.search(path.read_text())
        and _name(path) != "protocol/odf_protocol/typed.py"
    }
    assert around == set()


def test_a_package_file_holds_no_logic():
    packages = [path for path in MODULES if path.name == "__init__.py" and _name(path) != PUBLIC]
    assert {_name(path) for path in packages if _outline(path).holds_logic} == set()


def test_rooms_use_relative_doors_inside_and_absolute_ones_between():
    inside = {
        f"{_name(path)}:{line}"
        for path in MODULES
        for line, name in _outline(path).imports
        if name.split(".")[0] == PACKAGES[path.relative_to(ROOT).parts[0]]
    }
    assert inside == set()


def test_only_the_settings_modules_read_the_environment():
    readers = {
        _name(path)
        for path in MODULES
        if ENVIRONMENT.search(path.read_text()) and _name(path) not in ENVIRONMENT_READERS
    }
    assert readers == set()


ENVIRONMENT_READERS = SETTINGS_MODULES | {
    "app/odf_node/cli/shell/output.py",  # the token a person keeps in the environment of the shell
    "app/odf_node/client/nodes/home.py",  # and that of a program
    "app/odf_node/service/pages/datasets/loading.py",  # prints programs that do
    "workers/odf_workers/engines/spark/python_daemon.py",  # Spark hands over nothing else
    "app/odf_node/cli/machine/doctor.py",  # says whether JAVA_HOME is what Spark starts with
    "app/odf_node/cli/machine/serve.py",  # hands its own environment on to the worker it starts
    "storage/odf_storage/runtime/logs.py",  # the variables of OpenTelemetry are its own
    "workers/odf_workers/confine/rules.py",  # makes the environment of confined processes
    "workers/odf_workers/engines/spark/session.py",  # JAVA_HOME
    "workers/odf_workers/engines/spark/machine.py",  # where Spark and its cluster are
}


def test_the_project_speaks_of_itself_alone():
    words = re.compile(
        "|".join(
            [
                r"pypi" + r"\.org",
                r"python" + r"hosted",
                r"registry\.npm" + r"js",
                r"maven" + r"\.org",
                r"/work" + r"/(main|shared|steering)",
                r"sub-?" + r"agent",
            ]
        )
    )
    speaking = {
        _name(path)
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ""}
        and path.is_file()
        and words.search(path.read_text(errors="ignore"))
    }
    assert speaking == set()


def test_the_service_imports_no_spark():
    probe = (
        "import sys, odf_node.service.main; print([m for m in sys.modules if m[:7] == 'pyspark'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_client_starts_without_database_and_arrow():
    """They take twice as long to import as all the rest of a command line."""
    look = (
        "import sys, odf_node.client.transfer.sync; "
        "print(*{'sqlalchemy', 'pyarrow', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
