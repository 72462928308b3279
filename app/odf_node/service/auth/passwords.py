"""Passwords: rules for new ones, and the hash that the node stores (scrypt, RFC 7914).

The stored text contains its parameters, `$scrypt$ln=15,r=8,p=3$salt$hash`, so that the cost
of new passwords can be raised while old ones remain valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import unicodedata
from dataclasses import dataclass

from odf_protocol.errors import BadInput

MIN_PASSWORD_CHARS = 8
MAX_PASSWORD_CHARS = 1024
SALT_BYTES = 16
HASH_BYTES = 32
MAX_WORK = 20
BLOCK_SIZE = 8
DEFAULT_PASSES = 3
_STORED = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([\w-]+)\$([\w-]+)", re.ASCII
)


class PasswordNotTaken(BadInput):
    """A new password is too short, too long, or no text."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one guess: `passes` times 2^work steps over 128 · `block_size` bytes each.

    The default takes 32 MiB of memory and about a quarter of a second.
    """

    work: int = 15
    passes: int = DEFAULT_PASSES
    block_size: int = BLOCK_SIZE

    def derive(self, password: str, salt: bytes) -> bytes:
        count = 2**self.work
        memory = 128 * self.block_size * (count + self.passes + 2)
        return hashlib.scrypt(
            _canonical(password),
            salt=salt,
            n=count,
            r=self.block_size,
            p=self.passes,
            maxmem=memory,
            dklen=HASH_BYTES,
        )


def check_new(password: str) -> str:
    """Return the password if it follows the rules. Raises `PasswordNotTaken`."""
    if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
        raise PasswordNotTaken(
            f"a password has {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters"
        )
    try:
        _canonical(password)
    except UnicodeEncodeError:
        raise PasswordNotTaken("a password is text; this one cannot be written in UTF-8") from None
    return password


def hash_password(password: str, salt: bytes, cost: Cost) -> str:
    """Return the text to store for a password: parameters, salt and hash."""
    derived = cost.derive(password, salt)
    parameters = f"ln={cost.work},r={cost.block_size},p={cost.passes}"
    return f"$scrypt${parameters}${_text(salt)}${_text(derived)}"


def verify_password(password: str, stored: str) -> bool:
    """Return whether the password matches the stored hash. The comparison takes constant time."""
    match = _STORED.fullmatch(stored)
    if match is None or len(password) > MAX_PASSWORD_CHARS:
        return False
    work, block_size, passes = (int(number) for number in match.groups()[:3])
    if not 1 <= work <= MAX_WORK or not block_size or not passes:
        return False
    try:
        salt, expected = _bytes(match[4]), _bytes(match[5])
        derived = Cost(work, passes, block_size).derive(password, salt)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return hmac.compare_digest(derived, expected)


def _canonical(password: str) -> bytes:
    """Return the bytes of the password. They do not depend on how a keyboard composes
    characters."""
    return unicodedata.normalize("NFC", password).encode()


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
