"""Key pairs that identify datasets: ed25519 from 32 random bytes of the caller.

The public key is the dataset's identity. This module uses no random source: the same seed
gives the same key, so the caller decides where randomness comes from.
Source: ODF "Dataset Identity"; RFC 8032 for the key pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import BadInput
from .identity import DatasetId

SEED_BYTES = 32


class MalformedSeed(BadInput):
    """The seed of a private key does not have 32 bytes."""


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
        raise MalformedSeed(f"an ed25519 seed has {SEED_BYTES} bytes, not {len(seed)}")
    from Crypto.PublicKey import ECC  # slow to import, and keys are rarely made

    key = ECC.construct(curve="Ed25519", seed=seed)
    return KeyPair(seed, bytes(key.public_key().export_key(format="raw")))
