"""Choose the response format of a table: plain Parquet files, or actions of a Delta log.

Every client reads plain files, but they work only if each row of each file is live. Retracted rows
require deletion vectors, which only the Delta format has. Source: Delta Sharing protocol,
"delta-sharing-capabilities Header".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odf_protocol.errors import BadInput

HEADER = "delta-sharing-capabilities"
VECTORS, LOCAL_TIMES = "deletionvectors", "timestampntz"


class Form(StrEnum):
    """Response format; the values are those of the header."""

    PARQUET = "parquet"
    DELTA = "delta"


class NeedsDeltaFormat(BadInput):
    """The table has retracted rows, but the client does not support deletion vectors."""

    def __init__(self) -> None:
        super().__init__(
            "rows of this table were taken back or corrected, which plain Parquet files cannot "
            "tell: read it with use_delta_format=True (responseformat=delta and "
            "readerfeatures=deletionvectors), or read the table of this name in the schema "
            "'changelog'"
        )


class NotInDeltaFormat(BadInput):
    """Delta has no type for some columns of the table."""

    def __init__(self, columns: list[str]) -> None:
        super().__init__(
            f"the format delta has no type for the columns {', '.join(columns)[:300]}: read the "
            "table with use_delta_format=False, or by GET …/read of the node",
            columns=columns[:20],
        )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The formats and features that a client supports."""

    forms: frozenset[str]
    features: frozenset[str]

    @classmethod
    def parse(cls, header: str | None) -> Capabilities:
        """Parse the header; without one, the client supports Parquet. Ignore unknown parts."""
        told: dict[str, frozenset[str]] = {}
        for part in (header or "").lower().split(";"):
            name, _, values = part.partition("=")
            told[name.strip()] = frozenset(each.strip() for each in values.split(","))
        forms = told.get("responseformat", frozenset({Form.PARQUET.value}))
        return cls(forms, told.get("readerfeatures", frozenset()))

    def form(self, *, has_dead_rows: bool, foreign: list[str]) -> Form:
        """Return the format: plain files if possible. Delta has no type for the columns `foreign`.

        Raises:
            NeedsDeltaFormat, NotInDeltaFormat.
        """
        is_delta = Form.DELTA in self.forms
        if not has_dead_rows and (Form.PARQUET in self.forms or not is_delta):
            return Form.PARQUET
        if not is_delta or (has_dead_rows and VECTORS not in self.features):
            raise NeedsDeltaFormat
        if foreign:
            raise NotInDeltaFormat(foreign)
        return Form.DELTA
