"""Hashes and their text, by known answers."""

from __future__ import annotations

import pytest
from known import name_of, vectors

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import (
    ARROW0_SHA3_256,
    SHA3_256,
    MalformedHash,
    MalformedMultibase,
    Multihash,
    decode_multibase,
    decode_varint,
    encode_varint,
)


@pytest.mark.parametrize("vector", vectors("hashes", "sha3-multihash"), ids=name_of)
def test_data_hashes_to_the_known_multihash(vector):
    data = bytes.fromhex(vector["data"])
    hashed = Multihash.of(data)
    assert hashed.raw.hex() == vector["multihash"]
    assert Multihash.of_chunks([data[:5], data[5:]]) == hashed
    for text in vector["text"].values():
        assert Multihash.parse(text) == hashed
    assert str(hashed) == vector["text"]["f"]


@pytest.mark.parametrize("vector", vectors("hashes", "multihash-text"), ids=name_of)
def test_accepted_text_becomes_bytes_and_canonical_text(vector):
    parsed = Multihash.parse(vector["text"])
    assert parsed.raw.hex() == vector["multihash"]
    assert str(parsed) == vector["canonical"]
    assert Multihash.decode(parsed.raw) == parsed


@pytest.mark.parametrize("vector", vectors("hashes", "multihash-invalid"), ids=name_of)
def test_text_that_is_no_multihash_is_refused(vector):
    with pytest.raises(BadInput):
        Multihash.parse(vector["text"])


@pytest.mark.parametrize(
    "text", ["", "f", "z", "u", "f16", "f1620", "f 1620", "x1620", "fé", "z0OIl"]
)
def test_odd_ends_of_text_are_refused(text):
    with pytest.raises(BadInput):
        Multihash.parse(text)


def test_over_long_text_is_not_looked_at():
    with pytest.raises(BadInput, match="longer than"):
        Multihash.parse("z" + "1" * 100_000)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "16",
        "1620",
        "9600" + "20" + "00" * 32,
        "16a000" + "00" * 32,
        "ff" * 12,
        "1320" + "00" * 32,
    ],
)
def test_bytes_that_are_no_multihash_are_refused(raw):
    with pytest.raises(MalformedHash):
        Multihash.decode(bytes.fromhex(raw))


def test_shorter_digests_are_accepted():
    assert Multihash.decode(bytes.fromhex("1604aabbccdd")).digest == bytes.fromhex("aabbccdd")


def test_hashes_compare_by_code_and_digest():
    digest = b"d" * 32
    assert Multihash(SHA3_256, digest) == Multihash.parse(str(Multihash(SHA3_256, digest)).upper())
    assert Multihash(SHA3_256, digest) != Multihash(ARROW0_SHA3_256, digest)
    assert len({Multihash(SHA3_256, digest), Multihash(SHA3_256, digest)}) == 1


@pytest.mark.parametrize("value", [0, 1, 127, 128, 0x300016, 2**56 - 1])
def test_varints_read_back(value):
    assert decode_varint(encode_varint(value)) == (value, len(encode_varint(value)))


@pytest.mark.parametrize("prefix", ["f", "F", "b", "B", "z", "m", "u", "U"])
def test_every_final_multibase_is_read(prefix):
    from multiformats import multibase

    bases = dict(
        zip(
            "fFbBzmuU",
            ["base16", "base16upper", "base32", "base32upper", "base58btc", "base64"],
            strict=False,
        )
    ) | {"u": "base64url", "U": "base64urlpad"}
    raw = Multihash.of(b"x").raw
    assert decode_multibase(multibase.encode(raw, bases[prefix])) == raw


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        ("u", "FiB0HvoxH5doaVaUZ1jg2V9w8R_y2k8v63xUMU9EE0rEnw=="),
        ("u", "FiB0HvoxH5doaVaUZ1jg2V9w8R_y2k8v63xUMU9EE0rEnw="),
        ("m", "FiB0HvoxH5doaVaUZ1jg2V9w8R/y2k8v63xUMU9EE0rEnw=="),
        ("U", "FiB0HvoxH5doaVaUZ1jg2V9w8R_y2k8v63xUMU9EE0rEnw"),
        ("U", "FiB0HvoxH5doaVaUZ1jg2V9w8R_y2k8v63xUMU9EE0rEnw==========="),
        ("U", "FiB0HvoxH5doaVaU====Z1jg2V9w8R_y2k8v63xUMU9EE0rEnw=="),
        ("u", "FiB0HvoxH5doaVaUZ1jg2V9w8R_y2k8v63xUMU9EE0rEnw\n"),
        ("b", "cyqhihx2ge7zo2djk2kgowha3fpxb4i74wsp5n3rzvbrj5ceo5e4==="),
    ],
)
def test_padding_where_a_base_has_none_is_refused(prefix, text):
    """So each hash and each id has one text in each base."""
    with pytest.raises(MalformedMultibase):
        decode_multibase(prefix + text)
    with pytest.raises(MalformedMultibase):
        DatasetId.parse(f"did:odf:{prefix}{text}")
