"""Responses to queries: a JSON document with its parts, or only the rows in a file format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, BinaryIO

import msgspec
from starlette.responses import Response

from odf_protocol.commitments import TextForm
from odf_protocol.multihash import Multihash
from odf_storage.datasets.query.messages import Form
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format

from ..auth.actors import Actor
from ..datasets.schema_formats import written
from ..http.answers import JsonAnswer
from ..http.streamed import StreamedAnswer
from ..read.routes import SLICES
from .asked import Asked, Include
from .proofs import SigningKeys, SigningNotEnabled, output_hash
from .query import Queries, Rows

FILE_PIECE_BYTES = 1 << 18
INPUTS = "odf-inputs"
"""Response header beside rows without a document: the input datasets, in the format of the request
field `datasets`."""


async def document(
    queries: Queries, keys: SigningKeys, actor: Actor, caller: str, asked: Asked
) -> Response:
    """Return the whole answer as JSON.

    Raises `SigningNotEnabled`, and the same errors as `Queries.begin`.
    """
    if asked.is_proven and keys.active is None:
        raise SigningNotEnabled
    rows, data, facts = await gathered(queries, actor, caller, asked)
    parts: dict[str, Any] = {}
    if Include.INPUT in asked.include:
        parts["input"] = asked.echo(rows.pins, rows.projection)
    if asked.is_proven:
        parts |= keys.proven(parts["input"], output_hash(data, facts))
    head = b'{"output":{"data":' + data + b"," + msgspec.json.encode(facts)[1:]
    tail = b"," + msgspec.json.encode(parts)[1:] if parts else b"}"
    return Response(head + tail, headers=opened_of(rows), media_type=JsonAnswer.media_type)


async def proven_output(
    queries: Queries, actor: Actor, caller: str, asked: Asked
) -> tuple[dict[TextForm, Multihash], bool]:
    """Return the hash of an output in each form of text, and whether it depends on the order in
    which floats are added. Raises the same errors as `Queries.begin`."""
    rows, data, facts = await gathered(queries, actor, caller, asked)
    return {form: output_hash(data, facts, form) for form in TextForm}, rows.adds_floats


async def gathered(
    queries: Queries, actor: Actor, caller: str, asked: Asked
) -> tuple[Rows, bytes, dict[str, Any]]:
    """Run a query to its end. Return its rows object, all rows as JSON, and the other members of
    the
    output."""
    rows = await queries.begin(actor, caller, asked)
    try:
        data = b"".join([piece async for piece in rows])
    except BaseException:
        await rows.close()
        raise
    rows.leave()
    facts: dict[str, Any] = {"dataFormat": asked.form.value}
    if Include.SCHEMA in asked.include:
        schema = written(rows.schema, asked.schema_form)
        facts |= {"schema": schema, "schemaFormat": asked.schema_form.value}
    return rows, data, facts


class RowsAlone(StreamedAnswer):
    """Streams rows in a file format, as the process computes them."""

    def __init__(self, rows: Rows, form: Form) -> None:
        pins = msgspec.json.encode(rows.pins).decode()
        media_type = MEDIA_TYPES[Format(form.value)]
        super().__init__(
            _pieces(rows), headers={INPUTS: pins, **opened_of(rows)}, media_type=media_type
        )
        self._rows = rows

    async def finished(self) -> None:
        await self._rows.close()


class FileRows(StreamedAnswer):
    """Streams rows from a stored file, and closes the file afterwards."""

    def __init__(self, file: BinaryIO, headers: dict[str, str], media_type: str) -> None:
        pieces = iter(partial(file.read, FILE_PIECE_BYTES), b"")
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._file = file

    async def finished(self) -> None:
        self._file.close()


def opened_of(rows: Rows) -> dict[str, str]:
    """Return the header with the number of opened slices and of all slices."""
    return {SLICES: f"{rows.scanned}/{rows.total}"}


async def _pieces(rows: Rows) -> AsyncIterator[bytes]:
    async for piece in rows:
        yield piece
