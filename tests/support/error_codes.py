"""The errors that our packages can raise: codes, and the classes that carry them."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Container, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import odf_node
import odf_protocol
import odf_storage
import odf_workers
from odf_protocol.errors import NodeError

ROOMS = (odf_protocol, odf_storage, odf_node, odf_workers)
BRANCHES = frozenset(
    kind.__name__
    for kind in (NodeError, *NodeError.__subclasses__())
    if kind.__module__ == NodeError.__module__
)
CODE = re.compile(r"[A-Z][A-Za-z0-9]+")


def classes() -> set[type[NodeError]]:
    """Return all classes of errors; tests declare some of their own, which are left out."""
    for room in ROOMS:
        for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
            import_module(module.name)
    names = {room.__name__ for room in ROOMS}
    return {kind for kind in _below(NodeError) if kind.__module__.partition(".")[0] in names}


class Known(NamedTuple):
    """An error: its code, the class that carries it, and the package that makes it."""

    code: str
    kind: type[NodeError]
    room: str


@cache
def errors() -> frozenset[Known]:
    """Return every error: the names of classes, and the codes in the source."""
    kinds = {kind.__name__: kind for kind in (NodeError, *classes())}
    named = {Known(kind.__name__, kind, kind.__module__.partition(".")[0]) for kind in classes()}
    return frozenset(named) | {
        Known(code, kinds[name], path.parts[0]) for path, name, code in made() if code is not None
    }


@cache
def made() -> tuple[tuple[Path, str, str | None], ...]:
    """Return what makes an error in our packages: the module, whose path begins with the name of
    the package, the class and the code. To read all modules takes seconds, so it is done once."""
    names = {"NodeError", *(kind.__name__ for kind in classes())}
    found = []
    for room in ROOMS:
        folder = Path(room.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text())
            found += [(path.relative_to(folder.parent), *call) for call in calls(tree, names)]
    return tuple(found)


def calls(tree: ast.Module, names: Container[str]) -> Iterator[tuple[str, str | None]]:
    """Yield what makes an error of one of these names, with its code: `BadInput("Code", …)` or
    `partial(BadInput, "Code")`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        words = [node.func, *node.args]
        if isinstance(node.func, ast.Name) and node.func.id == "partial":
            words = node.args
        name = getattr(words[0], "attr", getattr(words[0], "id", ""))
        if name in names:
            yield name, _code(words[1]) if len(words) > 1 else None


def _code(word: ast.expr) -> str | None:
    text = word.value if isinstance(word, ast.Constant) else None
    return text if isinstance(text, str) and CODE.fullmatch(text) else None


def _below(kind: type[NodeError]) -> Iterator[type[NodeError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
