"""Errors: a class stands where our code decides by it, everything else is a code of its branch."""

from __future__ import annotations

import ast

from tests.architecture.figures import classes_of, exceptions, modules

MOST = 193
"""Classes of exceptions that our code catches, asks for or derives others from. Raise a branch with
a code (DEVELOPING.md, "An error") instead of one more."""


def test_there_are_few_classes_of_errors() -> None:
    trees = (ast.parse(path.read_text()) for path in modules())
    assert len(exceptions([each for tree in trees for each in classes_of(tree)])) <= MOST
