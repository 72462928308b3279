"""The house in figures: `python tests/architecture/figures.py` prints how many pieces the code has.

A change that moves walls is measured by it before and after; nothing here is a limit.
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "conformance", "migrations", "protocol", "storage", "workers")
SIBLINGS = 12


def main() -> None:
    """Print one figure a line."""
    trees = {path: ast.parse(path.read_text()) for path in modules()}
    sizes = {path: len(path.read_text().splitlines()) for path in trees}
    own = [size for path, size in sizes.items() if path.name != "__init__.py"]
    folders = Counter(path.parent for path in trees if path.name != "__init__.py")
    classes = [each for tree in trees.values() for each in classes_of(tree)]
    names = Counter(each.name for each in classes if not each.name.startswith("_"))
    for name, figure in {
        "files": len(trees),
        "files without those of packages": len(own),
        "lines": sum(sizes.values()),
        "median of a file": int(statistics.median(own)),
        "longest file": max(own),
        f"folders with more than {SIBLINGS} files": sum(n > SIBLINGS for n in folders.values()),
        "exception classes": len(exceptions(classes)),
        "protocols": sum("Protocol" in bases_of(each) for each in classes),
        "names of public classes that stand twice": sum(n > 1 for n in names.values()),
        "migrations": len(list((ROOT / "migrations").rglob("versions/*.py"))),
    }.items():
        print(f"{figure:>8,}  {name}")


def modules() -> Iterator[Path]:
    """Yield the files of our packages."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def classes_of(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module, also those inside of others."""
    statements: list[ast.AST] = [*tree.body]
    for node in statements:  # of expressions there are many more, and none has a class
        if isinstance(node, ast.ClassDef):
            yield node
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            inside = getattr(node, part, ())
            statements += inside if isinstance(inside, list) else ()


def bases_of(each: ast.ClassDef) -> set[str]:
    """Return the names of the bases, without their modules and parameters."""
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in each.bases)
    return {
        base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in plain
    }


def exceptions(classes: list[ast.ClassDef]) -> set[str]:
    """Return the names of the classes that are raised: those below an exception of Python."""
    builtin = {
        name
        for name, value in vars(__import__("builtins")).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    found: set[str] = set()
    known = builtin
    while more := {each.name for each in classes if bases_of(each) & known} - found:
        found |= more
        known = builtin | found
    return found


if __name__ == "__main__":
    main()
