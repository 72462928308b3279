"""Texts of hashes and ids against a second reader that follows the rules letter by letter."""

from __future__ import annotations

import base64

from hypothesis import given, settings
from hypothesis import strategies as st

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
BASE16 = "0123456789abcdef"
KNOWN = (0x01, 0x12, 0x16, 0xED, 0x300016, 0x400000, 0x400001)
many = settings(max_examples=200, deadline=None)


def number_of(text: str, alphabet: str) -> int:
    number = 0
    for character in text:
        number = number * len(alphabet) + alphabet.index(character)
    return number


def bytes_of(text: str) -> bytes:
    """Of a multibase text. Raises `ValueError` or `IndexError`."""
    prefix, rest = text[0], text[1:]
    if prefix in "fF":
        number, size = number_of(rest.lower() if rest.isascii() else rest, BASE16), len(rest) // 2
        if len(rest) % 2:
            raise ValueError("half a byte")
        return number.to_bytes(size, "big")
    if prefix == "u":
        size, stray = divmod(len(rest) * 6, 8)
        number = number_of(rest, BASE64)
        if stray == 6 or number % (1 << stray):
            raise ValueError("bits that no byte has")
        return (number >> stray).to_bytes(size, "big")
    if prefix == "z":
        number = number_of(rest, BASE58)
        zeros = len(rest) - len(rest.lstrip("1"))
        return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    raise ValueError(prefix)


def varint(raw: bytes, at: int) -> tuple[int, int]:
    end = at
    while raw[end] >= 0x80:
        end += 1
    if end > at and raw[end] == 0:
        raise ValueError("longer than need be")
    return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(raw[at : end + 1])), end + 1


def hash_of(text: str) -> tuple[int, bytes] | None:
    try:
        raw = bytes_of(text)
        code, at = varint(raw, 0)
        length, at = varint(raw, at)
    except (ValueError, IndexError):
        return None
    digest = raw[at:]
    fits = code in KNOWN and length == len(digest) <= 32
    return (code, digest) if fits else None


def key_of(text: str) -> bytes | None:
    try:
        raw = bytes_of(text.removeprefix("did:odf:")) if text.startswith("did:odf:") else b""
    except (ValueError, IndexError):
        return None
    return raw[2:] if raw[:2] == b"\xed\x01" and len(raw) == 34 else None


def base58(raw: bytes) -> str:
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text


def packed(value: int) -> bytes:
    rest, out = value, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


@st.composite
def texts(draw: st.DrawFn, raw: st.SearchStrategy[bytes]) -> str:
    """Bytes in one of the encodings that every peer reads, at times with a slip."""
    content = draw(raw)
    text = draw(
        st.sampled_from(
            [
                "f" + content.hex(),
                "F" + content.hex().upper(),
                "u" + base64.urlsafe_b64encode(content).decode().rstrip("="),
                "z" + base58(content),
            ]
        )
    )
    if draw(st.booleans()):
        at = draw(st.integers(1, len(text)))
        text = text[:at] + draw(st.sampled_from([*"0OIlAaf_-=+ \n"])) + text[at + 1 :]
    return text


hashes = st.builds(
    lambda code, digest, more: packed(code) + packed(max(0, len(digest) + more)) + digest,
    st.sampled_from([*KNOWN, 0x17, 0x55]),
    st.sampled_from([32, 32, 32, 0, 20, 33]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    st.sampled_from([0, 0, 0, 0, 1, -1]),
)
keys = st.builds(
    bytes.__add__,
    st.sampled_from([b"\xed\x01", b"\xed\x01", b"\xec\x01", b"\xed\x81\x00"]),
    st.sampled_from([32, 32, 31, 33]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
)


@many
@given(text=texts(hashes))
def test_a_hash_is_read_or_refused_as_the_rules_say(text: str) -> None:
    try:
        found = Multihash.parse(text)
    except BadInput:
        assert hash_of(text) is None
    else:
        assert (found.code, found.digest) == hash_of(text)


@many
@given(text=texts(keys), prefix=st.sampled_from(["did:odf:", "did:odf:", "did:key:", "DID:odf:"]))
def test_an_id_is_read_or_refused_as_the_rules_say(text: str, prefix: str) -> None:
    try:
        found = DatasetId.parse(prefix + text)
    except BadInput:
        assert key_of(prefix + text) is None
    else:
        assert found.key == key_of(prefix + text)
