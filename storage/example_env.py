"""Settings as the commented template of an environment file, for service and workers alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PREFIX = "ODF_NODE_"


def example_lines(heading: str, fields: Iterable[tuple[str, Any, str | None]]) -> list[str]:
    """Name, default and meaning of each setting, below a heading."""
    lines = [f"# {heading}"]
    for name, default, meaning in fields:
        lines += ["", f"# {meaning}", f"#{PREFIX}{name.upper()}={_text(default)}"]
    return lines


def _text(default: Any) -> str:
    """As the environment spells it: nothing for none, JSON for a list."""
    return "" if default is None else "[]" if default == () else str(default)
