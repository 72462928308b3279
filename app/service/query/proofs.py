"""The key by which a node signs its answers, those it had before, and an answer with its proof."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from odf_node.protocol.commitments import Commitment, canonical, did_key, hash_of, sign
from odf_node.protocol.errors import BadInput, NodeFault
from odf_node.protocol.identity import DatasetId, MalformedDid
from odf_node.protocol.keys import SEED_BYTES, KeyPair, key_pair
from odf_node.protocol.multihash import MalformedMultibase, Multihash

ACTIVE, RETIRED = "active", "retired"


class SigningNotEnabled(NodeFault):
    """A proof is asked for, and the node has no key to sign with."""

    def __init__(self) -> None:
        super().__init__(
            "Response signing is not enabled by the node operator", setting="ODF_NODE_SIGNING_KEY"
        )


class MalformedSigningKey(BadInput):
    """A setting that holds no key. Its text is not repeated."""


@dataclass(frozen=True)
class SigningKeys:
    """`retired`: public keys as `did:key` that signed earlier answers."""

    active: KeyPair | None = field(repr=False)
    retired: tuple[str, ...] = ()

    def published(self) -> list[dict[str, str]]:
        """What is told of the keys to everybody, the active one first."""
        own = [] if self.active is None else [(did_key(self.active.public), ACTIVE)]
        known = [*own, *((each, RETIRED) for each in self.retired)]
        return [{"id": each, "state": state} for each, state in known]

    def proven(self, asked: dict[str, Any], output: Multihash) -> dict[str, Any]:
        """The parts of an answer that prove it. Raises `SigningNotEnabled`."""
        if self.active is None:
            raise SigningNotEnabled
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


def output_hash(data: bytes, facts: dict[str, Any]) -> Multihash:
    """Of an output: `data` is canonical JSON already, and its key comes first of all."""
    return Multihash.of(b'{"data":' + data + b"," + canonical(facts)[1:])


def open_signing_keys(text: str | None, file: Path | None, retired: tuple[str, ...]) -> SigningKeys:
    """The key of a setting or of a file, 32 bytes in base64 or hex.

    Raises:
        MalformedSigningKey: there is no key, or two.
    """
    if text is not None and file is not None:
        raise MalformedSigningKey("give ODF_NODE_SIGNING_KEY or ODF_NODE_SIGNING_KEY_FILE")
    if file is not None:
        text = file.read_text()
    for each in retired:
        try:
            DatasetId.parse_did_key(each)
        except (MalformedDid, MalformedMultibase):
            raise MalformedSigningKey(f"{each[:80]!r} is no did:key of Ed25519") from None
    return SigningKeys(None if text is None else key_pair(_seed(text.strip())), retired)


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
        raise MalformedSigningKey("a signing key is 32 bytes in base64 or hex")
    return seed
