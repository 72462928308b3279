"""Check an answer with a proof: compare its hashes, check its signature, run its query again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from odf_protocol.commitments import (
    Commitment,
    MalformedProof,
    Proof,
    TextForm,
    forms_of,
    is_signed,
)
from odf_protocol.errors import BadInput
from odf_protocol.typed import convert
from odf_storage.datasets.query.messages import View

from ..auth.actors import Actor
from ..http.bodies import MalformedBody
from .answers import proven_output
from .asked import InvalidQueryRequest, UnknownField, checked, parse_body
from .inputs import PinnedBlockNotFound, PinnedDatasetNotFound
from .query import Queries

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
            raise MalformedBody(f"this is no answer with a proof: {str(bad)[:200]}") from None
        forms = _check_signed(told)
        try:
            # An answer that names no projection is of changelogs, whoever signed it.
            asked = checked(
                parse_body(told.input),
                projection=View.CHANGELOG,
                max_rows=self.queries.settings.query_max_rows,
            )
        except (UnknownField, InvalidQueryRequest) as bad:
            raise MalformedBody(f"input: {bad.message}") from None
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
