"""Known answers: the vectors of `tests/vectors`, by file and kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "vectors"


def document(name: str) -> Any:
    """A whole vector file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def vectors(name: str, *what: str) -> list[dict[str, Any]]:
    """The vectors of a file, of those kinds only if any are named."""
    listed: list[dict[str, Any]] = document(name)["vectors"]
    default = document(name).get("what")
    return [v for v in listed if not what or v.get("what", default) in what]


def name_of(vector: dict[str, Any]) -> str:
    """A readable test id."""
    return str(vector["name"])
