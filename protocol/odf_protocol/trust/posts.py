"""Signatures of posts: the key of a publisher vouches for a body, and for where it goes.

signed      `odf-post/v1`, dataset, hash of the body: a line each
signature   `did:key:… base64`
"""

from __future__ import annotations

from dataclasses import dataclass

from ..commitments import KeyPair, did_key, is_signed_by, signed_by
from ..errors import BadInput, NodeError
from ..identity import DatasetId
from ..multihash import Multihash
from .notes import decoded, encoded

MAX_SIGNATURE_CHARS = 200


@dataclass(frozen=True, slots=True)
class PostSignature:
    """A signature, and the public key that is said to have made it."""

    signer: bytes
    signature: bytes

    @classmethod
    def sign(cls, key: KeyPair, dataset: DatasetId, body: Multihash) -> PostSignature:
        return cls(key.public, signed_by(key, _signed(dataset, body)))

    @classmethod
    def parse(cls, text: str) -> PostSignature:
        """Raises `MalformedSignature`."""
        key, _, signature = text.partition(" ")
        try:
            if len(text) > MAX_SIGNATURE_CHARS:
                raise BadInput("MalformedSignature", "it is too long")
            return cls(DatasetId.parse_did_key(key).key, decoded(signature, "the signature"))
        except NodeError as wrong:
            raise BadInput(
                "MalformedSignature",
                f"the signature of a post is `did:key:… base64`: {wrong.message}",
            ) from None

    def require(self, dataset: DatasetId, body: Multihash) -> None:
        """Check that the key signed this body for this dataset. Raises `PostNotSigned`."""
        if not is_signed_by(self.signer, _signed(dataset, body), self.signature):
            raise BadInput(
                "PostNotSigned",
                f"{did_key(self.signer)} did not sign this body for {dataset}; the hash of the "
                f"body as it arrived is {body}",
            )

    def __str__(self) -> str:
        return f"{did_key(self.signer)} {encoded(self.signature)}"


def _signed(dataset: DatasetId, body: Multihash) -> bytes:
    return f"odf-post/v1\n{dataset}\n{body}\n".encode()
