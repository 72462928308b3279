"""What defines SHA3-256: numbers of Keccak-f[1600], the end of a message, the digest of a state.

Source: FIPS 202, sections 3.2 (ρ, ι), 4 (sponge) and 6.1 (SHA3-256).
"""

from __future__ import annotations

from typing import Any

BLOCK_BYTES = 136
"""Bytes that one permutation takes in: the rate."""
WORDS = 25
ROUNDS = 24
ROTATIONS = [
    *(0, 1, 62, 28, 27),
    *(36, 44, 6, 55, 20),
    *(3, 10, 43, 25, 39),
    *(41, 45, 15, 21, 8),
    *(18, 2, 61, 56, 14),
]
"""By how many bits ρ turns each word, at x + 5y."""


def round_constants() -> list[int]:
    """What ι adds in each round, by the shift register of its definition."""
    found, register = [], 1
    for _ in range(ROUNDS):
        constant = 0
        for bit in range(7):
            constant |= (register & 1) << ((1 << bit) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        found.append(constant)
    return found


def padded(rest: bytes | bytearray) -> bytes:
    """The end of a message, filled up to whole blocks."""
    missing = BLOCK_BYTES - len(rest) % BLOCK_BYTES
    return bytes(rest) + (b"\x86" if missing == 1 else b"\x06" + bytes(missing - 2) + b"\x80")


def digest_of(state: Any) -> bytes:
    """What a state says once the end of its message is in."""
    return bytes(state)[:32]
