"""Settings are read from the environment by the prefix of the program that declares them.

Which program looks at which prefix is in `docs/decisions/settings-by-program.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from odf_node.protocol.errors import BadInput

from .old_settings import RENAMED, by_new_names
from .shared_settings import SharedSettings

S = TypeVar("S", bound=SharedSettings)


class InvalidSetting(BadInput):
    """A setting has a value that it cannot take."""


class UnknownSetting(BadInput):
    """The environment names a setting that does not exist."""


def read_settings(
    kind: type[S],
    environ: Mapping[str, str],
    given: Mapping[str, Any],
    *,
    more: Iterable[str] = (),
) -> S:
    """Settings of a program from the environment; values given (not None) win.

    Args:
        more: variables with a prefix of the program that another reader of the environment knows.

    Raises:
        UnknownSetting: a variable with a prefix of the program that means nothing.
        SettingTwice: a setting under its old and its new name.
        InvalidSetting: a value out of range or of the wrong type; the first one of them.
    """
    texts = by_new_names(environ)
    names = variables(kind)
    _refuse_unknown(kind, texts, more)
    values = {
        name: _value(kind.model_fields[name], variable, texts[variable])
        for variable, name in names.items()
        if variable in texts
    }
    try:
        return kind(**values | {name: value for name, value in given.items() if value is not None})
    except ValidationError as broken:
        first = broken.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidSetting(
            f"setting {name} ({variable_of(kind, name)}): {first['msg']}", setting=name
        ) from None


def variables(kind: type[SharedSettings]) -> dict[str, str]:
    """Setting by variable, the shared ones included."""
    return {variable_of(kind, name): name for name in kind.model_fields}


def variable_of(kind: type[SharedSettings], name: str) -> str:
    owner = SharedSettings if name in SharedSettings.model_fields else kind
    return owner.PREFIX + name.upper()


def example_lines(heading: str, kind: type[SharedSettings]) -> list[str]:
    """Meaning, name and default of each setting that a class declares itself, below a heading."""
    inherited = () if kind is SharedSettings else SharedSettings.model_fields
    lines = [f"# {heading}"]
    for name, field in kind.model_fields.items():
        if name not in inherited:
            shown = f"#{variable_of(kind, name)}={_text(field.default)}"
            lines += ["", f"# {field.description}", shown]
    return lines


def _refuse_unknown(
    kind: type[SharedSettings], names: Iterable[str], more: Iterable[str] = ()
) -> None:
    """Refuse names that begin with a prefix of the program and are none of its variables.

    Raises:
        UnknownSetting: with the variable that was meant, if one is alike.
    """
    known = {*variables(kind), *more}
    for name in names:
        if name.startswith((kind.PREFIX, SharedSettings.PREFIX)) and name not in known:
            meant = _alike(name, known | {*RENAMED.values()})
            guess = f"; did you mean {meant}?" if meant else "; see settings.example.env"
            raise UnknownSetting(f"there is no setting {name}{guess}", setting=name, meant=meant)


def _alike(name: str, known: set[str]) -> str | None:
    """The same name under another prefix, else the nearest one."""
    bare = {each.split("_", 2)[2]: each for each in sorted(known)}
    near = get_close_matches(name.split("_", 2)[2], bare, n=1)
    return bare[near[0]] if near else None


def _value(field: FieldInfo, variable: str, text: str) -> Any:
    """Lists and tables are JSON."""
    if not isinstance(field.default, tuple | dict):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidSetting(f"{variable} is not JSON", setting=variable) from None


def _text(default: Any) -> str:
    """As the environment spells it: nothing for none, JSON for a list."""
    return "" if default is None else "[]" if default == () else str(default)
