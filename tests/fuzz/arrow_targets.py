"""Fuzz targets of schemas: raw Arrow schemas of old blocks, and DDL columns of read steps."""

from __future__ import annotations

import contextlib

from odf_protocol.columns.arrow_digest import ArrowDigest
from odf_protocol.columns.arrow_schema import decode_raw_arrow_schema, from_arrow, to_arrow
from odf_protocol.ddl import parse_ddl
from odf_protocol.errors import NodeError


def fuzz_arrow_schema(data: bytes) -> None:
    """Whatever is read has a digest or none, and an ODF form or none; that form has one meaning."""
    try:
        schema = decode_raw_arrow_schema(data)
    except NodeError:
        return
    with contextlib.suppress(NodeError):
        ArrowDigest(schema)
    with contextlib.suppress(NodeError):
        meaning = to_arrow(from_arrow(schema))
        assert to_arrow(from_arrow(meaning)) == meaning


def fuzz_ddl(data: bytes) -> None:
    """Lines are columns. Whatever parses has an Arrow form, or is refused in our words."""
    with contextlib.suppress(NodeError):
        to_arrow(parse_ddl(data.decode("utf-8", "replace").splitlines()))
