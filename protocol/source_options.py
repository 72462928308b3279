"""How a source wants its batches looked at, beyond what the specification has words for.

Such wishes are attributes of the schema in the source's read step: the chain carries them to every
copy of the dataset, and nodes that do not know them pass over them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from .attributes import MalformedAttributes
from .errors import BadInput
from .metadata.schema import DataSchema


class UnknownSourceOption(BadInput):
    """An attribute of ours has a value that means nothing."""


class HeaderRule(StrEnum):
    """What the header of a CSV file has to do with the declared names."""

    NAMES = "names"
    """They say which column is which, see `csv_header.py`: the default."""
    STRICT = "strict"
    """The declared names in the declared order, letter by letter; anything else is refused."""
    POSITION = "position"
    """Names are not looked at."""


class RetractionRule(StrEnum):
    """What becomes of a row of a changelog that takes back what does not stand."""

    REFUSE = "refuse"
    """The batch is refused: the default."""
    WARN = "warn"
    """The receipt warns of it."""


HEADER_KEY = "odf-node/csvHeader"
RETRACTION_KEY = "odf-node/retractions"
Option = TypeVar("Option", HeaderRule, RetractionRule)


def header_rule(schema: DataSchema | None) -> HeaderRule:
    """Raises `UnknownSourceOption`."""
    return _option(schema, HEADER_KEY, HeaderRule.NAMES)


def retraction_rule(schema: DataSchema | None) -> RetractionRule:
    """Raises `UnknownSourceOption`."""
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
