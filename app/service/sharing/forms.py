"""In which of the two forms a table is told: plain Parquet files, or actions of a Delta log.

Plain files are for everybody, as long as each row of each file counts. Rows that were taken back
take deletion vectors, which only the other form has. Source: Delta Sharing protocol,
"delta-sharing-capabilities Header".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from odf_node.protocol.errors import BadInput

HEADER = "delta-sharing-capabilities"
VECTORS, LOCAL_TIMES = "deletionvectors", "timestampntz"


class Form(StrEnum):
    """Values are those of the header."""

    PARQUET = "parquet"
    DELTA = "delta"


class NeedsDeltaFormat(BadInput):
    """Rows were taken back, and the client does not say that it can leave them out."""

    def __init__(self) -> None:
        super().__init__(
            "rows of this table were taken back or corrected, which plain Parquet files cannot "
            "tell: read it with use_delta_format=True (responseformat=delta and "
            "readerfeatures=deletionvectors), or read the table of this name in the schema "
            "'changelog'"
        )


class NotInDeltaFormat(BadInput):
    """Readers of Delta know no such type."""

    def __init__(self, columns: list[str]) -> None:
        super().__init__(
            f"the format delta has no type for the columns {', '.join(columns)[:300]}: read the "
            "table with use_delta_format=False, or by GET …/read of the node",
            columns=columns[:20],
        )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a client says that it can read."""

    forms: frozenset[str]
    features: frozenset[str]

    @classmethod
    def parse(cls, header: str | None) -> Capabilities:
        """Without a header: Parquet. What is unknown is left alone."""
        told: dict[str, frozenset[str]] = {}
        for part in (header or "").lower().split(";"):
            name, _, values = part.partition("=")
            told[name.strip()] = frozenset(each.strip() for each in values.split(","))
        forms = told.get("responseformat", frozenset({Form.PARQUET.value}))
        return cls(forms, told.get("readerfeatures", frozenset()))

    def form(self, *, has_dead_rows: bool, foreign: list[str]) -> Form:
        """Plain files where both will do. `foreign` are columns that Delta has no type of.

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
