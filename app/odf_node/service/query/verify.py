"""Check an answer with a proof: compare its hashes, check its signature, run its query again.

Responses to queries: a JSON document with its parts, or only the rows in a file format.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import msgspec
from starlette.responses import Response

from odf_protocol.commitments import (
    Commitment,
    MalformedProof,
    Proof,
    TextForm,
    forms_of,
    is_signed,
)
from odf_protocol.errors import BadInput, NodeFault
from odf_protocol.multihash import Multihash
from odf_protocol.typed import convert
from odf_storage.datasets.query.messages import Form, TableView
from odf_storage.datasets.read.formats import MEDIA_TYPES, Format

from ..auth.actors import Actor
from ..datasets.schema_formats import written
from ..http.answers import JsonAnswer, StreamedAnswer
from ..read.routes import SLICES
from .background import (
    Include,
    InvalidQueryRequest,
    QueryRequest,
    UnknownField,
    checked,
    parse_body,
)
from .inputs import PinnedBlockNotFound, PinnedDatasetNotFound
from .proofs import SigningKeys, output_hash
from .query import Queries, QueryRows

FILE_PIECE_BYTES = 1 << 18
INPUTS = "odf-inputs"
"""Response header beside rows without a document: the input datasets, in the format of the request
field `datasets`."""


async def document(
    queries: Queries, keys: SigningKeys | None, actor: Actor, caller: str, asked: QueryRequest
) -> Response:
    """Return the whole answer as JSON. Without keys it has no proof.

    Raises `SigningNotEnabled`, and the same errors as `Queries.begin`.
    """
    if asked.is_proven and keys is None:
        raise NodeFault(
            "SigningNotEnabled", "answers out of folders are signed by nobody; ask a node"
        )
    rows, data, facts = await gathered(queries, actor, caller, asked)
    parts: dict[str, Any] = {}
    if Include.INPUT in asked.include:
        parts["input"] = asked.echo(rows.pins, rows.projection)
    if keys is not None and asked.is_proven:
        parts |= keys.proven(parts["input"], output_hash(data, facts))
    head = b'{"output":{"data":' + data + b"," + msgspec.json.encode(facts)[1:]
    tail = b"," + msgspec.json.encode(parts)[1:] if parts else b"}"
    return Response(head + tail, headers=opened_of(rows), media_type=JsonAnswer.media_type)


async def proven_output(
    queries: Queries, actor: Actor, caller: str, asked: QueryRequest
) -> tuple[dict[TextForm, Multihash], bool]:
    """Return the hash of an output in each form of text, and whether it depends on the order in
    which floats are added. Raises the same errors as `Queries.begin`."""
    rows, data, facts = await gathered(queries, actor, caller, asked)
    return {form: output_hash(data, facts, form) for form in TextForm}, rows.adds_floats


async def gathered(
    queries: Queries, actor: Actor, caller: str, asked: QueryRequest
) -> tuple[QueryRows, bytes, dict[str, Any]]:
    """Run a query to its end. Return its rows object, all rows as JSON, and the other members of
    the output."""
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

    def __init__(self, rows: QueryRows, form: Form) -> None:
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


def opened_of(rows: QueryRows) -> dict[str, str]:
    """Return the header with the number of opened slices and of all slices."""
    return {SLICES: f"{rows.scanned}/{rows.total}"}


async def _pieces(rows: QueryRows) -> AsyncIterator[bytes]:
    async for piece in rows:
        yield piece


INVALID = "The commitment is invalid and cannot be disputed: "
ADDS_FLOATS = (
    "The query was run again and gave another output. The answer depends on the order in which "
    "floats are added, which differs between machines and programs, so this does not say that the "
    "answer is false: compare its rows, or add decimals"
)


class Refuted(BadInput):
    """An answer failed a check. `kind` and the facts are the response of `/verify`."""

    def __init__(self, kind: str, message: str, **facts: object) -> None:
        super().__init__(message, kind=kind, **facts)
        self.kind = kind


class Proven(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An answer with its proof, without its output."""

    input: dict[str, Any]
    sub_queries: list[Any]
    commitment: Commitment
    proof: Proof


@dataclass(frozen=True)
class Verification:
    """Checks answers; runs their queries again with the rights of the caller."""

    queries: Queries

    async def check(self, actor: Actor, caller: str, body: Any) -> TextForm | None:
        """Check an answer. If it is right, return the form of text that its hashes need; None if
        they are the same in both.

        Raises:
            Refuted: the answer failed a check; checks run in the order of the specification.
            MalformedBody: the body is no answer with a proof.
            The same errors as `Queries.begin`.
        """
        try:
            told = convert(body, Proven)
        except msgspec.ValidationError as bad:
            raise BadInput(
                "MalformedBody", f"this is no answer with a proof: {str(bad)[:200]}"
            ) from None
        forms = _check_signed(told)
        try:
            # An answer that names no projection is of changelogs, whoever signed it.
            asked = checked(
                parse_body(told.input),
                projection=TableView.CHANGELOG,
                max_rows=self.queries.settings.query_max_rows,
            )
        except (UnknownField, InvalidQueryRequest) as bad:
            raise BadInput("MalformedBody", f"input: {bad.message}") from None
        try:
            actual, adds_floats = await proven_output(self.queries, actor, caller, asked)
        except PinnedDatasetNotFound as gone:
            raise Refuted(
                "VerificationFailed::DatasetNotFound",
                f"The dataset cannot be found: {gone.facts['dataset_id']}",
                dataset_id=gone.facts["dataset_id"],
            ) from None
        except PinnedBlockNotFound as gone:
            raise Refuted(
                "VerificationFailed::DatasetBlockNotFound",
                f"The block of a dataset cannot be found: {gone.facts['block_hash']}",
                **gone.facts,
            ) from None
        forms &= {form for form in actual if str(actual[form]) == told.commitment.output_hash}
        if not forms:
            raise Refuted(
                "VerificationFailed::OutputMismatch",
                ADDS_FLOATS if adds_floats else "The query was run again and gave another output",
                expected_hash=told.commitment.output_hash,
                actual_hash=str(actual[TextForm.ESCAPED]),
                **({"depends_on_order": True} if adds_floats else {}),
            )
        return None if len(forms) > 1 else min(forms)


def _check_signed(told: Proven) -> frozenset[TextForm]:
    """Return the forms of text that the hashes of input and sub-queries allow. Raises `Refuted`."""
    forms = forms_of(told.input, told.commitment.input_hash)
    if not forms:
        raise Refuted("InvalidRequest::InputHash", f"{INVALID}the hash of the input is another")
    forms &= forms_of(told.sub_queries, told.commitment.sub_queries_hash)
    if not forms:
        raise Refuted(
            "InvalidRequest::SubQueriesHash", f"{INVALID}the hash of the sub-queries is another"
        )
    try:
        signed = is_signed(told.commitment, told.proof)
    except MalformedProof as bad:
        raise Refuted("InvalidRequest::BadSignature", f"{INVALID}{bad.message}") from None
    if not signed:
        raise Refuted(
            "InvalidRequest::BadSignature", f"{INVALID}the signature is not one of the key"
        )
    return forms
