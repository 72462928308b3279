"""Names of columns that clients take for one, or for none.

What the owner of a dataset says of its columns: a description and a unit.

They are attributes of the columns in the schema, so that the chain carries them to every copy, and
nodes that do not know them keep them. Anybody may write a chain: readers take only texts, and no
more of them than the limits.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from ..errors import BadInput
from ..metadata.attributes import Attributes, MalformedAttributes
from ..metadata.schema import DataField, DataSchema


def name_remarks(names: Iterable[str]) -> Iterator[str]:
    """Yield a remark for each name that differs from an earlier one in case only, or in the form of
    its accents, which nobody sees, and for a name that is empty."""
    seen: dict[str, str] = {}
    for name in names:
        if not name.strip():
            yield (
                f"a column has the name {name!r}, which shows nothing: some clients give it a name "
                "of their own, so give it one before"
            )
        other = seen.setdefault(unicodedata.normalize("NFC", name.lower()), name)
        if other == name:
            continue
        if unicodedata.normalize("NFC", other) == unicodedata.normalize("NFC", name):
            yield (
                f"two columns are called `{name}`: their accents are parts of the letters in one "
                "name, and signs of their own in the other (NFC and NFD of Unicode)"
            )
        else:
            yield (
                f"columns `{other}` and `{name}` differ in case only: clients that ignore case, "
                "such as those of Delta Sharing, refuse the table"
            )


DESCRIPTION_KEY = "odf-node/description"
UNIT_KEY = "odf-node/unit"
MAX_DESCRIPTION_CHARS = 1000
MAX_UNIT_CHARS = 50


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """What is said of a column; empty texts if nothing is."""

    description: str = ""
    unit: str = ""

    def __bool__(self) -> bool:
        return bool(self.description or self.unit)

    @property
    def line(self) -> str:
        """Both in one line: `Air temperature (°C)`."""
        return " ".join([self.description, f"({self.unit})" if self.unit else ""]).strip()


UNSAID = ColumnTexts()


def texts_of(field: DataField) -> ColumnTexts:
    """Return what is said of a column, each text in one line and cut to its limit."""
    # most columns say nothing, and the text of attributes is cheaper to search than to parse
    if field.extra is None or not any(
        key in field.extra.text for key in (DESCRIPTION_KEY, UNIT_KEY)
    ):
        return UNSAID
    try:
        value = field.extra.value
    except MalformedAttributes:
        return UNSAID
    return ColumnTexts(
        _line(value.get(DESCRIPTION_KEY), MAX_DESCRIPTION_CHARS),
        _line(value.get(UNIT_KEY), MAX_UNIT_CHARS),
    )


def _line(value: Any, most: int) -> str:
    return " ".join(value.split())[:most] if isinstance(value, str) else ""


def texts_in(schema: DataSchema | None) -> dict[str, ColumnTexts]:
    """Return what is said of the columns of a schema, by name; columns without texts are absent."""
    fields = () if schema is None else schema.fields
    return {field.name: texts for field in fields if (texts := texts_of(field))}


def described(field: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a column of a manifest with these texts, by their keys. An empty one is removed, and
    what is not named stays. Raises `MalformedColumnText`."""
    limits = {DESCRIPTION_KEY: MAX_DESCRIPTION_CHARS, UNIT_KEY: MAX_UNIT_CHARS}
    for key, text in texts.items():
        if len(text) > limits[key] or not text.isprintable():
            word = key.partition("/")[2]
            raise BadInput(
                "MalformedColumnText",
                f"the {word} of the column {str(field['name'])[:50]!r} is one line of at most "
                f"{limits[key]} characters",
                column=str(field["name"]),
            )
    extra = {**field.get("extra", {}), **texts}
    kept = {key: value for key, value in extra.items() if value != "" or key not in texts}
    return {**{key: value for key, value in field.items() if key != "extra"}, **_extra(kept)}


def _extra(kept: dict[str, Any]) -> dict[str, Any]:
    return {"extra": kept} if kept else {}


def with_attributes_of(schema: DataSchema, before: Iterable[DataField]) -> DataSchema:
    """Return the schema, where columns without attributes have those of their namesakes."""
    known: dict[str, Attributes | None] = {field.name: field.extra for field in before}
    fields = tuple(
        structs.replace(field, extra=known.get(field.name)) if field.extra is None else field
        for field in schema.fields
    )
    return structs.replace(schema, fields=fields)


def with_units_of(schema: DataSchema, source: DataSchema | None) -> DataSchema:
    """Return the schema of a dataset, where columns have the units that a source declares."""
    units = {name: texts.unit for name, texts in texts_in(source).items() if texts.unit}
    if not units:
        return schema
    fields = tuple(
        structs.replace(field, extra=_with_unit(field.extra, units[field.name]))
        if field.name in units
        else field
        for field in schema.fields
    )
    return structs.replace(schema, fields=fields)


def _with_unit(extra: Attributes | None, unit: str) -> Attributes:
    return Attributes.of({**({} if extra is None else extra.value), UNIT_KEY: unit})


def bare_unit(text: str) -> str:
    """Return a unit without blanks and brackets around it."""
    plain = text.strip()
    inside = plain[1:-1].strip()
    return inside if inside and plain[0] + plain[-1] in ("[]", "()") else plain


def plain_unit(text: str) -> str:
    """Return a unit as it is compared: bare, and in one form of its characters, of which two are
    called micro."""
    return unicodedata.normalize("NFKC", bare_unit(text))
