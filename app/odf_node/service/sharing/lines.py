"""Lines of responses about tables: protocol, metadata, files and changes in both formats.

Source: Delta Sharing protocol, "API Response Format in Parquet", "… in Delta".

Choose the response format of a table: plain Parquet files, or actions of a Delta log.

Every client reads plain files, but they work only if each row of each file is live. Retracted rows
require deletion vectors, which only the Delta format has. Source: Delta Sharing protocol,
"delta-sharing-capabilities Header".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from odf_protocol.delta.schemas import DeltaSchema
from odf_protocol.errors import BadInput

HEADER = "delta-sharing-capabilities"
VECTORS, LOCAL_TIMES = "deletionvectors", "timestampntz"


class LineForm(StrEnum):
    """Response format; the values are those of the header."""

    PARQUET = "parquet"
    DELTA = "delta"


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
        forms = told.get("responseformat", frozenset({LineForm.PARQUET.value}))
        return cls(forms, told.get("readerfeatures", frozenset()))

    def form(self, *, has_dead_rows: bool, foreign: list[str]) -> LineForm:
        """Return the format: plain files if possible. Delta has no type for the columns `foreign`.

        Raises:
            NeedsDeltaFormat, NotInDeltaFormat.
        """
        is_delta = LineForm.DELTA in self.forms
        if has_dead_rows and foreign:  # no form can tell this table
            raise BadInput(
                "NotInDeltaFormat",
                "rows of this table were taken back or corrected, which only the format delta can "
                f"tell, and that has no type for the columns {', '.join(foreign)[:300]}: read the "
                "table of this name in the schema 'changelog' with use_delta_format=False, where "
                "`op` says which rows were taken back, or by GET …/read of the node",
                columns=foreign[:20],
            )
        if not has_dead_rows and (LineForm.PARQUET in self.forms or not is_delta):
            return LineForm.PARQUET
        if not is_delta or (has_dead_rows and VECTORS not in self.features):
            raise BadInput(
                "NeedsDeltaFormat",
                "rows of this table were taken back or corrected, which plain Parquet files cannot "
                "tell: read it with use_delta_format=True (responseformat=delta and "
                "readerfeatures=deletionvectors), or read the table of this name in the schema "
                "'changelog'",
            )
        if foreign:
            raise BadInput(
                "NotInDeltaFormat",
                f"the format delta has no type for the columns {', '.join(foreign)[:300]}: read "
                "the table with use_delta_format=False, or by GET …/read of the node",
                columns=foreign[:20],
            )
        return LineForm.DELTA


Line = dict[str, Any]
FORMAT = {"provider": "parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTold:
    """A table as of a version."""

    id: str
    name: str
    schema: DeltaSchema
    version: int
    size: int
    """Sum of the bytes of its files."""
    files: int
    block: str
    created_ms: int
    has_dead_rows: bool = False
    is_feed: bool = False
    """Whether the response is a feed of changes instead of the table's content."""


class FileTold(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file of a version. A table has thousands, so an instance must be cheap to make."""

    url: str
    id: str
    size: int
    version: int
    made_ms: int
    expires_ms: int
    stats: str | None = None
    vector: Mapping[str, object] | None = None
    """Deletion vector of the rows that are not live."""
    is_mixed: bool = False
    """Whether the file has a column with the type of change of each row."""


def head_lines(form: LineForm, table: TableTold) -> list[Line]:
    """Return the lines with protocol and metadata."""
    return [_PROTOCOLS[form](table), _METADATA[form](table)]


def file_line(form: LineForm, file: FileTold) -> Line:
    """Return the line for a file of the table's content."""
    return {"file": _whole(file) if form is LineForm.PARQUET else _delta(file)}


def change_line(form: LineForm, file: FileTold) -> Line:
    """Return the line for a file of a feed of changes."""
    if form is LineForm.DELTA:
        return {"file": _delta(file)}
    return {"cdf" if file.is_mixed else "add": _whole(file)}


def encoded(lines: Sequence[Line]) -> bytes:
    """Return the lines as text: one JSON object per line."""
    return msgspec.json.Encoder().encode_lines(lines)


def _parquet_protocol(_: TableTold) -> Line:
    return {"protocol": {"minReaderVersion": 1}}


def _delta_protocol(table: TableTold) -> Line:
    """Return the protocol. It lists features only if needed, so that older readers can read it."""
    wanted = {
        "deletionVectors": table.has_dead_rows,
        "timestampNtz": table.schema.has_local_times,
    }
    features = [name for name, is_wanted in wanted.items() if is_wanted]
    if not features:
        plain = {"minReaderVersion": 1, "minWriterVersion": 4 if table.is_feed else 2}
        return {"protocol": {"deltaProtocol": plain}}
    feed = ["changeDataFeed"] if table.is_feed else []
    listed = {"readerFeatures": features, "writerFeatures": features + feed}
    return {"protocol": {"deltaProtocol": {"minReaderVersion": 3, "minWriterVersion": 7} | listed}}


def _parquet_metadata(table: TableTold) -> Line:
    feed = {"enableChangeDataFeed": "true"}
    return {"metaData": {**_described(table, FORMAT, feed), **_counted(table)}}


def _delta_metadata(table: TableTold) -> Line:
    feed = {"delta.enableChangeDataFeed": "true"} if table.is_feed else {}
    told = _described(table, {**FORMAT, "options": {}}, feed)
    return {
        "metaData": {
            **_counted(table),
            "deltaMetadata": {**told, "createdTime": table.created_ms},
        }
    }


def _described(table: TableTold, file_format: Line, configuration: Line) -> Line:
    return {
        "id": table.id,
        "name": table.name,
        "format": file_format,
        "schemaString": table.schema.text,
        "partitionColumns": [],
        "configuration": {**configuration, "odf.block": table.block},
    }


def _counted(table: TableTold) -> Line:
    return {"version": table.version, "size": table.size, "numFiles": table.files}


def _whole(file: FileTold) -> Line:
    return {"url": file.url, "partitionValues": {}, "size": file.size, **_common(file)} | (
        {} if file.stats is None else {"stats": file.stats}
    )


def _delta(file: FileTold) -> Line:
    action: Line = {"path": file.url, "partitionValues": {}, "size": file.size}
    if file.is_mixed:
        return {**_common(file), "deltaSingleAction": {"cdc": {**action, "dataChange": False}}}
    action |= {"modificationTime": file.made_ms, "dataChange": True}
    if file.stats is not None:
        action["stats"] = file.stats
    if file.vector is not None:
        action["deletionVector"] = file.vector
    return {**_common(file), "deltaSingleAction": {"add": action}}


def _common(file: FileTold) -> Line:
    return {
        "id": file.id,
        "version": file.version,
        "timestamp": file.made_ms,
        "expirationTimestamp": file.expires_ms,
    }


_PROTOCOLS = {LineForm.PARQUET: _parquet_protocol, LineForm.DELTA: _delta_protocol}
_METADATA = {LineForm.PARQUET: _parquet_metadata, LineForm.DELTA: _delta_metadata}
