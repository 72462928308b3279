"""The mutations fit the code: each finds its lines, and the tests it names are there.

Whether the tests notice them is tried by `make mutations`, which takes long.
"""

from __future__ import annotations

import ast
import re

import pytest
from mutations import ROOT, BadMutation, mutations, read_mutation

CONTRACTS = "".join(path.read_text() for path in (ROOT / "tests/conformance").glob("*.py"))
"""Suites whose tests stand in a class of the file that runs them on an adapter."""


@pytest.mark.parametrize("mutation", mutations(), ids=lambda each: each.name)
def test_a_mutation_fits_the_code_and_names_tests_that_are_there(mutation):
    for path, text in mutation.texts().items():
        assert text != path.read_text()
        if path.suffix == ".py":  # else any test would notice, whatever it looks for
            ast.parse(text)
    for test in mutation.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text() + CONTRACTS
        for part in name.split("::") if name else []:
            pattern = rf"(def|class) {re.escape(part.partition('[')[0])}\b"
            assert re.search(pattern, text), test


def test_a_mutation_whose_lines_are_not_found_once_is_refused(tmp_path):
    file = tmp_path / "T1-nothing.txt"
    head = "Threat: T1\nTests: tests/storage/test_objects.py\nTakes out: nothing.\n\n"
    file.write_text(f"{head}In: put_hashed\n-    no such line\n")
    with pytest.raises(BadMutation, match="nowhere"):
        read_mutation(file).texts()
    file.write_text(f"{head}In: put_hashed\n")
    with pytest.raises(BadMutation, match="no list of lines"):
        read_mutation(file)
