"""Reads the settings of a program from environment variables with the program's prefix.

`docs/decisions/packages.md` says which program reads which prefix, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from odf_protocol.errors import BadInput

from .old_settings import GONE, RENAMED, by_new_names
from .shared_settings import SharedSettings

S = TypeVar("S", bound=SharedSettings)


class InvalidSetting(BadInput):
    """A setting has a value of the wrong type or out of range."""


class UnknownSetting(BadInput):
    """The environment names a setting that does not exist."""


def read_settings(
    kind: type[S],
    environ: Mapping[str, str],
    given: Mapping[str, Any],
    *,
    more: Iterable[str] = (),
) -> S:
    """Return a program's settings from the environment; values of `given` that are not None win.

    Args:
        more: variables with a prefix of the program that another reader of the environment knows.

    Raises:
        UnknownSetting: a variable with a prefix of the program is not a setting.
        SettingTwice: a setting is given under its old and its new name.
        InvalidSetting: a value is out of range or of the wrong type; the first such value.
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
    """Map variables to settings, including the shared settings."""
    return {variable_of(kind, name): name for name in kind.model_fields}


def variable_of(kind: type[SharedSettings], name: str) -> str:
    owner = SharedSettings if name in SharedSettings.model_fields else kind
    return owner.PREFIX + name.upper()


def example_lines(heading: str, kind: type[SharedSettings]) -> list[str]:
    """Return lines with meaning, name and default of each setting that the class declares."""
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
    """Refuse variables that begin with a prefix of the program but are not known.

    Raises:
        UnknownSetting: with the setting that took its place, or the most similar variable.
    """
    known = {*variables(kind), *more}
    for name in names:
        if name.startswith((kind.PREFIX, SharedSettings.PREFIX)) and name not in known:
            if name in GONE:
                place = GONE[name]
                instead = f"use {place} instead" if place else "its value is fixed now; remove it"
                message = f"the setting {name} is gone: {instead}"
                raise UnknownSetting(message, setting=name, meant=place or None)
            meant = _alike(name, known | {*RENAMED.values()})
            guess = f"; did you mean {meant}?" if meant else "; see settings.example.env"
            raise UnknownSetting(f"there is no setting {name}{guess}", setting=name, meant=meant)


def _alike(name: str, known: set[str]) -> str | None:
    """Return the same name under another prefix, else the most similar name, or None."""
    bare = {each.split("_", 2)[2]: each for each in sorted(known)}
    near = get_close_matches(name.split("_", 2)[2], bare, n=1)
    return bare[near[0]] if near else None


def _value(field: FieldInfo, variable: str, text: str) -> Any:
    """Return the value of a variable; lists and tables are parsed as JSON."""
    if not isinstance(field.default, tuple | dict):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidSetting(f"{variable} is not JSON", setting=variable) from None


def _text(default: Any) -> str:
    """Return a default as it is written in the environment: empty for None, JSON for a list."""
    return "" if default is None else "[]" if default == () else str(default)
