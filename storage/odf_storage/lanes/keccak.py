"""Definition of SHA3-256: constants of Keccak-f[1600], message padding, digest of a state.

Source: FIPS 202, sections 3.2 (ρ, ι), 4 (sponge) and 6.1 (SHA3-256).
"""

from __future__ import annotations

from typing import Any

BLOCK_BYTES = 136
"""Number of bytes that one permutation absorbs: the rate."""
WORDS = 25
ROUNDS = 24
ROTATIONS = [
    *(0, 1, 62, 28, 27),
    *(36, 44, 6, 55, 20),
    *(3, 10, 43, 25, 39),
    *(41, 45, 15, 21, 8),
    *(18, 2, 61, 56, 14),
]
"""Number of bits by which ρ rotates each word, at index x + 5y."""


def round_constants() -> list[int]:
    """Return the constant that ι adds in each round, from the shift register that defines it."""
    found, register = [], 1
    for _ in range(ROUNDS):
        constant = 0
        for bit in range(7):
            constant |= (register & 1) << ((1 << bit) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        found.append(constant)
    return found


def padded(rest: bytes | bytearray) -> bytes:
    """Return the end of a message, padded to whole blocks."""
    missing = BLOCK_BYTES - len(rest) % BLOCK_BYTES
    return bytes(rest) + (b"\x86" if missing == 1 else b"\x06" + bytes(missing - 2) + b"\x80")


def digest_of(state: Any) -> bytes:
    """Return the digest in a state that has absorbed the padded end of its message."""
    return bytes(state)[:32]
