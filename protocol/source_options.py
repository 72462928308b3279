"""Options of a source for reading its batches, beyond those of the specification.

Options are attributes of the schema in the source's read step. The chain carries them to every
copy of the dataset, and nodes that do not know them ignore them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from .attributes import MalformedAttributes
from .errors import BadInput
from .metadata.schema import DataSchema


class UnknownSourceOption(BadInput):
    """An attribute of this project has an invalid value."""


class HeaderRule(StrEnum):
    """How the header of a CSV file must relate to the declared names."""

    NAMES = "names"
    """Names decide which column is which, see `csv_header.py`. This is the default."""
    STRICT = "strict"
    """The header must have exactly the declared names in the declared order."""
    POSITION = "position"
    """The names in the header are ignored."""


class RetractionRule(StrEnum):
    """What happens to a changelog row that retracts a value which is not current."""

    REFUSE = "refuse"
    """The batch is refused. This is the default."""
    WARN = "warn"
    """The receipt has a warning."""


HEADER_KEY = "odf-node/csvHeader"
RETRACTION_KEY = "odf-node/retractions"
Option = TypeVar("Option", HeaderRule, RetractionRule)


def header_rule(schema: DataSchema | None) -> HeaderRule:
    """Return the option of a schema. Raises `UnknownSourceOption`."""
    return _option(schema, HEADER_KEY, HeaderRule.NAMES)


def retraction_rule(schema: DataSchema | None) -> RetractionRule:
    """Return the option of a schema. Raises `UnknownSourceOption`."""
    return _option(schema, RETRACTION_KEY, RetractionRule.REFUSE)


def _option(schema: DataSchema | None, key: str, default: Option) -> Option:
    try:
        asked = schema.extra.value.get(key) if schema is not None and schema.extra else None
    except MalformedAttributes:
        return default
    if asked is None:
        return default
    kind = type(default)
    if asked not in list(kind):
        known = ", ".join(kind)
        raise UnknownSourceOption(f"the attribute {key} is one of {known}", attribute=key)
    return kind(asked)
