"""Verifiable responses: hashes of a request and its response, and a signature of these hashes.

    canonical    JSON with sorted keys, without blanks, numbers as they stand in the answer, and all
                 text beyond U+007E escaped; other verifiers leave such text as UTF-8
    hash         SHA3-256 of the canonical text, as a multihash
    proof        Ed25519 of the canonical commitment, `u` and base64url; the key as `did:key`

Source: reference node, "commitment" and "proof" of answers to queries.

Key pairs that identify datasets: ed25519 from 32 random bytes of the caller.

The public key is the dataset's identity. This module uses no random source: the same seed
gives the same key, so the caller decides where randomness comes from.
Source: ODF "Dataset Identity"; RFC 8032 for the key pair.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from json.encoder import encode_basestring_ascii
from typing import Any

import msgspec

from .errors import BadInput
from .identity import DatasetId, MalformedDid
from .multihash import MalformedMultibase, Multihash

SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 key pair. The seed is secret and never displayed."""

    seed: bytes = field(repr=False)
    public: bytes

    @property
    def dataset_id(self) -> DatasetId:
        return DatasetId(self.public)


def key_pair(seed: bytes) -> KeyPair:
    """Return the key pair for a seed of 32 random bytes. Raises `MalformedSeed`."""
    if len(seed) != SEED_BYTES:
        raise BadInput("MalformedSeed", f"an ed25519 seed has {SEED_BYTES} bytes, not {len(seed)}")
    from Crypto.PublicKey import ECC  # slow to import, and keys are rarely made

    key = ECC.construct(curve="Ed25519", seed=seed)
    return KeyPair(seed, bytes(key.public_key().export_key(format="raw")))


MAX_KEY_BYTES = 10_000


def signing_key(raw: bytes) -> KeyPair:
    """Read a private key as PEM (PKCS 8), or as ssh-keygen writes it. Raises
    `UnusableSigningKey`."""
    from Crypto.PublicKey import ECC

    try:
        key = ECC.import_key(raw)
    except (ValueError, IndexError, TypeError):
        key = None
    if key is None or key.curve != "Ed25519" or not key.has_private():
        raise BadInput(
            "UnusableSigningKey",
            "a key to sign with is a private one of Ed25519 without a password, as PEM or as "
            "`ssh-keygen -t ed25519` writes it",
        )
    return key_pair(bytes(key.seed))


def private_pem(key: KeyPair) -> str:
    """Return the secret key as PEM (PKCS 8), which `signing_key` reads."""
    from Crypto.PublicKey import ECC

    return str(ECC.construct(curve="Ed25519", seed=key.seed).export_key(format="PEM")) + "\n"


PROOF_TYPE = "Ed25519Signature2020"
BASE64_URL = "u"
_ENCODER = msgspec.json.Encoder(order="sorted")
_BEYOND_ASCII = re.compile("[\x7f-\U0010ffff]+")


class TextForm(StrEnum):
    """How canonical JSON writes text beyond U+007E. Nodes sign the escaped form."""

    ESCAPED = "escaped"
    """As `\\uXXXX` with lower-case digits; two of them above U+FFFF."""
    PLAIN = "plain"
    """As UTF-8."""


class MalformedProof(BadInput):
    """The proof has another type or form than the proofs of this node."""


class Commitment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Hashes of the request, of the response, and of the responses that it was computed from."""

    input_hash: str
    output_hash: str
    sub_queries_hash: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A signature of a commitment."""

    type: str
    verification_method: str
    proof_value: str


def canonical(value: Any, form: TextForm = TextForm.ESCAPED) -> bytes:
    """Return the canonical text of a JSON value. A `msgspec.Raw` in it is taken as it is."""
    return in_form(_ENCODER.encode(value), form)


def in_form(plain: bytes, form: TextForm) -> bytes:
    """Return JSON in UTF-8 with its texts in that form."""
    if form is TextForm.PLAIN or (plain.isascii() and b"\x7f" not in plain):
        return plain
    return _BEYOND_ASCII.sub(
        lambda found: encode_basestring_ascii(found[0])[1:-1], plain.decode()
    ).encode()


def exactly_decoded(text: bytes) -> Any:
    """Decode JSON for `canonical`: numbers keep their text. Raises `MalformedProof`."""

    def as_written(number: str) -> msgspec.Raw:
        return msgspec.Raw(number.encode())

    def refused(word: str) -> None:
        raise MalformedProof(f"{word} is no JSON")

    try:
        return json.loads(
            text, parse_int=as_written, parse_float=as_written, parse_constant=refused
        )
    except (ValueError, RecursionError) as bad:
        raise MalformedProof(f"the answer is no JSON: {str(bad)[:200]}") from None


def hash_of(value: Any, form: TextForm = TextForm.ESCAPED) -> Multihash:
    """Return the hash of the canonical text of a JSON value."""
    return Multihash.of(canonical(value, form))


def forms_of(value: Any, said: str) -> frozenset[TextForm]:
    """Return the forms in which the hash of the value is the one that was said."""
    return frozenset(form for form in TextForm if str(hash_of(value, form)) == said)


def sign(commitment: Commitment, key: KeyPair) -> Proof:
    """Sign a commitment with the key of a node."""
    signed = signed_by(key, canonical(commitment))
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=")
    return Proof(
        type=PROOF_TYPE,
        verification_method=did_key(key.public),
        proof_value=BASE64_URL + signature.decode(),
    )


def did_key(public: bytes) -> str:
    """Return the public key in its published form."""
    return DatasetId(public).did_key


def is_signed(commitment: Commitment, proof: Proof) -> bool:
    """Return whether the key named in the proof signed the commitment. Raises `MalformedProof`."""
    key, signature = _parts(proof)
    return is_signed_by(key, canonical(commitment), signature)


def signed_by(key: KeyPair, message: bytes) -> bytes:
    """Return the signature of a message."""
    from Crypto.PublicKey import ECC  # slow to import, and many processes never sign
    from Crypto.Signature import eddsa

    return eddsa.new(ECC.construct(curve="Ed25519", seed=key.seed), "rfc8032").sign(message)


def is_signed_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether that public key signed the message."""
    from Crypto.Signature import eddsa

    try:
        eddsa.new(eddsa.import_public_key(public), "rfc8032").verify(message, signature)
    except ValueError:
        return False
    return True


def _parts(proof: Proof) -> tuple[bytes, bytes]:
    if proof.type != PROOF_TYPE:
        raise MalformedProof(f"a proof is of type {PROOF_TYPE}, not {proof.type[:50]!r}")
    try:
        key = DatasetId.parse_did_key(proof.verification_method).key
    except (MalformedDid, MalformedMultibase) as bad:
        raise MalformedProof(f"the key of the proof cannot be read: {bad.message}") from None
    text = proof.proof_value
    if not text.startswith(BASE64_URL):
        raise MalformedProof("the value of a proof is base64url behind a u")
    try:
        padded = text[1:] + "=" * (-len(text[1:]) % 4)
        signature = base64.b64decode(padded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedProof("the value of a proof is base64url behind a u") from None
    if base64.urlsafe_b64encode(signature).rstrip(b"=").decode() != text[1:]:
        raise MalformedProof("the value of the proof is not the one text of its bytes")
    return key, signature
