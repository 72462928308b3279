"""Attestations: what somebody says of one block, signed (an in-toto Statement v1 in DSSE).

    envelope     type, statement in base64, one signature with the SSH fingerprint of its key
    signed       `DSSEv1 length type length statement`
    statement    its subject is the block, by SHA3-256 and SHA-256; its predicate says what for

The predicate names the key that signs, since fingerprint and envelope are not signed. Numbers in it
are texts: other readers make floats of them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from ..commitments import KeyPair, did_key, is_signed_by, signed_by
from ..errors import BadInput, NodeError
from ..identity import DatasetId
from ..instant import Instant
from ..multihash import Multihash
from ..typed import decode_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_ENVELOPE_BYTES = 64 * 1024
_SSH_KIND = b"ssh-ed25519"


class Claim(StrEnum):
    """What an attestation is about; its value is the `predicateType`."""

    INGESTION = "urn:odf-node:attestation:ingestion:v1"
    """The signer took the rows of the block from a post or a source."""
    EXECUTION = "urn:odf-node:attestation:execution:v1"
    """The signer computed the rows of the block by the transform of the dataset."""
    REPLAY = "urn:odf-node:attestation:replay:v1"
    """The signer made the executions up to the block again, and got what the chain says."""
    ENDORSEMENT = "urn:odf-node:attestation:endorsement:v1"
    """The key of the dataset says which node publishes it from the block on."""

    @property
    def word(self) -> str:
        return self.value.split(":")[-2]


class _Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: list[_Signature]


class _Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha3_256: str
    sha256: str


class _Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    digest: _Digest


class _Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: str = msgspec.field(name="_type")
    subject: list[_Subject]
    predicate_type: Claim
    predicate: dict[str, Any]


RETIRED = "retired"
"""Member of the predicate of a replay: the keys, as `did:key`, of whose place the signer took."""
MOST_RETIRED = 100


def malformed_attestation(why: str) -> BadInput:
    """Make the error for bytes that are no attestation, or not a true one."""
    return BadInput("MalformedAttestation", f"this is no attestation: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """A statement whose signature is good: `signer` says it, whoever that is."""

    claim: Claim
    dataset: DatasetId
    block: Multihash
    signer: bytes
    """The public key."""
    at: Instant
    said: Mapping[str, Any]
    """All of the predicate."""
    sha256: str
    """The other hash of the block."""
    envelope: bytes

    @property
    def id(self) -> Multihash:
        return Multihash.of(self.envelope)

    @property
    def is_by_dataset(self) -> bool:
        """Whether the key of the dataset itself signed it."""
        return self.signer == self.dataset.key

    @classmethod
    def sign(
        cls,
        key: KeyPair,
        claim: Claim,
        dataset: DatasetId,
        block: bytes,
        at: Instant,
        said: Mapping[str, Any],
    ) -> Attestation:
        """Sign what is said of the block with these bytes."""
        name = Multihash.of(block)
        sha256 = hashlib.sha256(block).hexdigest()
        predicate = {
            **said,
            "at": str(at),
            "dataset": str(dataset),
            "signer": did_key(key.public),
        }
        statement = _Statement(
            type=STATEMENT_TYPE,
            subject=[_Subject(str(name), _Digest(name.digest.hex(), sha256))],
            predicate_type=claim,
            predicate=predicate,
        )
        payload = msgspec.json.encode(statement, order="deterministic")
        signature = signed_by(key, signed_text(payload))
        envelope = _Envelope(
            payload=_encoded(payload),
            payload_type=PAYLOAD_TYPE,
            signatures=[_Signature(fingerprint(key.public), _encoded(signature))],
        )
        return cls.parse(msgspec.json.encode(envelope))

    @classmethod
    def parse(cls, raw: bytes) -> Attestation:
        """Read an envelope and check it, but for who the signer is and what the block's bytes are.

        Raises:
            MalformedAttestation: it has another form, or says one thing and its signature another.
        """
        if len(raw) > MAX_ENVELOPE_BYTES:
            raise malformed_attestation(f"it has more than {MAX_ENVELOPE_BYTES} bytes")
        envelope = _decoded(raw, _Envelope)
        if envelope.payload_type != PAYLOAD_TYPE:
            raise malformed_attestation(f"its payloadType is not {PAYLOAD_TYPE}")
        if len(envelope.signatures) != 1:
            raise malformed_attestation("it has not one signature")
        payload = _bytes_of(envelope.payload)
        statement = _decoded(payload, _Statement)
        if statement.type != STATEMENT_TYPE:
            raise malformed_attestation(f"its _type is not {STATEMENT_TYPE}")
        if len(statement.subject) != 1:
            raise malformed_attestation("it has not one subject")
        made = cls._read(statement, msgspec.json.encode(envelope))
        (signature,) = envelope.signatures
        if signature.keyid != fingerprint(made.signer):
            raise malformed_attestation("its keyid is of another key than the one it names")
        if not is_signed_by(made.signer, signed_text(payload), _bytes_of(signature.sig)):
            raise malformed_attestation("the key that it names did not sign it")
        return made

    @classmethod
    def _read(cls, statement: _Statement, envelope: bytes) -> Attestation:
        (subject,), said = statement.subject, statement.predicate
        try:
            made = cls(
                claim=statement.predicate_type,
                dataset=DatasetId.parse(str(said.get("dataset"))),
                block=Multihash.parse(subject.name),
                signer=DatasetId.parse_did_key(str(said.get("signer"))).key,
                at=Instant.parse(str(said.get("at"))),
                said=said,
                sha256=subject.digest.sha256,
                envelope=envelope,
            )
        except NodeError as wrong:
            raise malformed_attestation(wrong.message) from None
        if (str(made.block), made.block.digest.hex()) != (subject.name, subject.digest.sha3_256):
            raise malformed_attestation(
                "its subject has the name of one block and the hash of another"
            )
        if made.claim is Claim.ENDORSEMENT and not made.is_by_dataset:
            raise malformed_attestation("only the key of the dataset endorses a node")
        return made

    def require(self, dataset: DatasetId, block: bytes) -> None:
        """Check that it is about this block of this dataset. Raises `OtherBlock`."""
        if self.dataset != dataset:
            raise BadInput("OtherBlock", f"the attestation is about dataset {self.dataset}")
        shown = (Multihash.of(block), hashlib.sha256(block).hexdigest())
        if shown != (self.block, self.sha256):
            raise BadInput(
                "OtherBlock", f"the attestation is about block {self.block} with other bytes"
            )


def replayers(said: Iterable[tuple[Claim, bytes, Collection[bytes]]]) -> set[bytes]:
    """Return the keys that replayed a dataset, each once, without those that made its blocks. What
    is said has the keys of whose place the signer took.

    A key whose earlier keys replayed or made blocks is not another one. It says so itself, so
    whoever lies takes only himself out of the count.
    """
    every = list(said)
    made = {key for claim, key, _ in every if claim in (Claim.INGESTION, Claim.EXECUTION)}
    replayed = {key for claim, key, _ in every if claim is Claim.REPLAY}
    again = {key for _, key, earlier in every if not (made | replayed - {key}).isdisjoint(earlier)}
    return replayed - made - again


def retired_of(said: Mapping[str, Any]) -> frozenset[bytes]:
    """Return the keys of whose place the signer of a replay took, as its predicate names them;
    those that are none are left out."""
    named = said.get(RETIRED)
    found = set()
    for each in named[:MOST_RETIRED] if isinstance(named, list) else ():
        with suppress(NodeError):
            found.add(DatasetId.parse_did_key(str(each)).key)
    return frozenset(found)


def predicate_of(envelope: bytes) -> dict[str, Any]:
    """Return the predicate of an envelope that was checked when it arrived."""
    payload = _bytes_of(_decoded(envelope, _Envelope).payload)
    return dict(_decoded(payload, _Statement).predicate)


def signed_text(payload: bytes) -> bytes:
    """Return what is signed of a payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def fingerprint(public: bytes) -> str:
    """Return the id of a key as `ssh-keygen -l` shows it."""
    wire = b"".join(len(part).to_bytes(4, "big") + part for part in (_SSH_KIND, public))
    return "SHA256:" + _encoded(hashlib.sha256(wire).digest()).rstrip("=")


def pem(public: bytes) -> str:
    """Return the key in the form that other verifiers of attestations read."""
    prefix = bytes.fromhex("302a300506032b6570032100")
    return f"-----BEGIN PUBLIC KEY-----\n{_encoded(prefix + public)}\n-----END PUBLIC KEY-----\n"


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes_of(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        raise malformed_attestation("a part is not base64 with padding") from None
    if _encoded(raw) != text:
        raise malformed_attestation("a part is not base64 with padding")
    return raw


def _decoded(raw: bytes, kind: type[Any]) -> Any:
    try:
        return decode_json(raw, kind)
    except (UnicodeDecodeError, msgspec.DecodeError) as bad:
        raise malformed_attestation(str(bad)[:200]) from None
