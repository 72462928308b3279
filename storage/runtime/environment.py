"""Settings of the environment, for service and workers alike: read, and shown as a template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from odf_node.protocol.errors import BadInput

PREFIX = "ODF_NODE_"
S = TypeVar("S", bound=BaseModel)


class InvalidSetting(BadInput):
    """A setting has a value that it cannot take."""


def read_settings(kind: type[S], given: Mapping[str, Any]) -> S:
    """Settings of a kind that reads the environment itself; values given (not None) win.

    Raises:
        InvalidSetting: a value out of range or of the wrong type; the first one of them.
    """
    try:
        return kind(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as broken:
        first = broken.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidSetting(
            f"setting {name} ({PREFIX}{name.upper()}): {first['msg']}", setting=name
        ) from None


def example_lines(heading: str, fields: Iterable[tuple[str, Any, str | None]]) -> list[str]:
    """Name, default and meaning of each setting, below a heading."""
    lines = [f"# {heading}"]
    for name, default, meaning in fields:
        lines += ["", f"# {meaning}", f"#{PREFIX}{name.upper()}={_text(default)}"]
    return lines


def _text(default: Any) -> str:
    """As the environment spells it: nothing for none, JSON for a list."""
    return "" if default is None else "[]" if default == () else str(default)
