"""The mutations fit the code: each patch applies, and the tests it names are there.

Whether the tests notice them is tried by `make mutations`, which takes long.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess

import pytest
from mutations import ROOT, mutations

CONTRACTS = "".join(path.read_text() for path in (ROOT / "tests/conformance").glob("*.py"))
"""Suites whose tests stand in a class of the file that runs them on an adapter."""


@pytest.mark.parametrize("mutation", mutations(), ids=lambda each: each.name)
def test_a_mutation_fits_the_code_and_names_tests_that_are_there(mutation, tmp_path):
    touched = re.findall(r"^--- a/(\S+)", mutation.path.read_text(), re.MULTILINE)
    for name in touched:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tried = subprocess.run(
        ["git", "apply", "-C1", str(mutation.path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert tried.returncode == 0, tried.stderr
    for name in touched:
        if name.endswith(".py"):  # else any test would notice, whatever it looks for
            ast.parse((tmp_path / name).read_text())
    for test in mutation.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text() + CONTRACTS
        for part in name.split("::") if name else []:
            pattern = rf"(def|class) {re.escape(part.partition('[')[0])}\b"
            assert re.search(pattern, text), test
