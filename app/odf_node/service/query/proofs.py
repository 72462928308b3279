"""The keys with which a node signs or has signed its answers, and the proof of an answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from odf_protocol.commitments import (
    SEED_BYTES,
    Commitment,
    KeyPair,
    TextForm,
    canonical,
    did_key,
    hash_of,
    in_form,
    key_pair,
    sign,
)
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId, MalformedDid
from odf_protocol.multihash import MalformedMultibase, Multihash
from odf_protocol.trust.attestations import fingerprint, pem
from odf_protocol.trust.notes import NoteKey

ACTIVE, RETIRED = "active", "retired"


@dataclass(frozen=True)
class SigningKeys:
    """The active key, and the `retired` public keys (as `did:key`) that signed earlier answers."""

    seed: bytes = field(repr=False)
    retired: tuple[str, ...] = ()

    @cached_property
    def active(self) -> KeyPair:
        return key_pair(self.seed)  # what makes it is slow to import, so not at a start

    def published(self, name: str) -> list[dict[str, str]]:
        """Return the public facts about the keys, the active one first. `name` is that of the
        node in keys for verifiers of signed notes."""
        known = [(did_key(self.active.public), ACTIVE), *((each, RETIRED) for each in self.retired)]
        return [
            {
                "id": each,
                "state": state,
                "vkey": str(NoteKey(name, DatasetId.parse_did_key(each).key)),
                "fingerprint": fingerprint(DatasetId.parse_did_key(each).key),
                "pem": pem(DatasetId.parse_did_key(each).key),
            }
            for each, state in known
        ]

    def proven(self, asked: dict[str, Any], output: Multihash) -> dict[str, Any]:
        """Return the parts of an answer that prove it."""
        commitment = Commitment(
            input_hash=str(hash_of(asked)),
            output_hash=str(output),
            sub_queries_hash=str(hash_of([])),
        )
        proof = sign(commitment, self.active)
        return {
            "subQueries": [],
            "commitment": msgspec.to_builtins(commitment),
            "proof": msgspec.to_builtins(proof),
        }


def output_hash(data: bytes, facts: dict[str, Any], form: TextForm = TextForm.ESCAPED) -> Multihash:
    """Return the hash of an output. `data` is canonical JSON in UTF-8, and its key sorts first."""
    plain = b'{"data":' + data + b"," + canonical(facts, TextForm.PLAIN)[1:]
    return Multihash.of(in_form(plain, form))


def open_signing_keys(
    text: str | None, file: Path | None, retired: tuple[str, ...], own: Callable[[], bytes]
) -> SigningKeys:
    """Read the signing key from a setting or a file: 32 bytes in base64 or hex. Without either it
    is made of the seed that `own` returns.

    Raises:
        MalformedSigningKey: the text is no key, or both a setting and a file are given.
    """
    if text is not None and file is not None:
        raise BadInput(
            "MalformedSigningKey", "give ODF_NODE_SIGNING_KEY or ODF_NODE_SIGNING_KEY_FILE"
        )
    if file is not None:
        text = file.read_text()
    for each in retired:
        try:
            DatasetId.parse_did_key(each)
        except (MalformedDid, MalformedMultibase):
            raise BadInput(
                "MalformedSigningKey", f"{each[:80]!r} is no did:key of Ed25519"
            ) from None
    return SigningKeys(own() if text is None else _seed(text.strip()), retired)


def _seed(text: str) -> bytes:
    try:
        seed = (
            bytes.fromhex(text)
            if len(text) == 2 * SEED_BYTES
            else base64.b64decode(text, validate=True)
        )
    except (ValueError, binascii.Error):
        seed = b""
    if len(seed) != SEED_BYTES:
        raise BadInput("MalformedSigningKey", "a signing key is 32 bytes in base64 or hex")
    return seed
