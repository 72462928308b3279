"""Dataset ids, names, aliases and references, by known answers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from known import name_of, vectors
from refusals import refusing

from odf_protocol.commitments import key_pair
from odf_protocol.errors import BadInput
from odf_protocol.identity import (
    DatasetAlias,
    DatasetId,
    DatasetRef,
    MalformedDid,
    MalformedName,
    Name,
    RemoteAlias,
)
from odf_protocol.references import (
    AmbiguousAlias,
    DatasetNamePattern,
    DatasetRefAny,
    DatasetRefRemote,
    check_url,
)
from odf_protocol.trust.notes import NoteKey


@pytest.mark.parametrize("vector", vectors("dataset-ids", "did"), ids=name_of)
def test_a_dataset_id_has_the_known_forms(vector):
    parsed = DatasetId.parse(vector["text"])
    assert parsed.raw.hex() == vector["bytes"]
    assert str(parsed) == vector["canonical"]
    assert parsed.did_key == vector["did_key"]
    assert DatasetId.decode(parsed.raw) == parsed
    assert DatasetId.parse_did_key(parsed.did_key) == parsed


@pytest.mark.parametrize("vector", vectors("dataset-ids", "did-invalid"), ids=name_of)
def test_text_that_is_no_dataset_id_is_refused(vector):
    with pytest.raises(BadInput):
        DatasetId.parse(vector["text"])


def test_a_did_key_is_no_dataset_id_and_the_reverse():
    id_ = DatasetId(b"k" * 32)
    with pytest.raises(MalformedDid):
        DatasetId.parse(id_.did_key)
    with pytest.raises(MalformedDid):
        DatasetId.parse_did_key(str(id_))


def _parts(kind: str, text: str) -> dict[str, Any]:
    """What the text says, in the words of the vectors."""
    match kind:
        case "DatasetName":
            return {"type": "Name", "name": str(Name(text))}
        case "DatasetAlias":
            return _alias(DatasetAlias.parse(text), "Alias")
        case "DatasetAliasRemote":
            return _alias(RemoteAlias.parse(text), "AliasRemote")
        case "DatasetNamePattern":
            assert str(DatasetNamePattern.parse(text)) == text
            return {"type": "Pattern"}
        case "DatasetRef":
            return _local(DatasetRef.parse(text), "Alias")
        case "DatasetRefRemote":
            return _remote(DatasetRefRemote.parse(text), "AliasRemote")
        case "DatasetRefAny":
            return _any(DatasetRefAny.parse(text))
    raise NotImplementedError(kind)


def _alias(alias: Any, type_: str) -> dict[str, Any]:
    parts = {name: getattr(alias, name, None) for name in ("repo", "account", "name")}
    return {"type": type_, **{name: str(part) for name, part in parts.items() if part}}


def _local(ref: DatasetRef, type_: str) -> dict[str, Any]:
    return {"type": "ID", "id": str(ref.id)} if ref.id else _alias(ref.alias, type_)


def _remote(ref: DatasetRefRemote, type_: str) -> dict[str, Any]:
    if ref.id is not None:
        repo = {"repo": str(ref.repo)} if ref.repo else {}
        return {"type": "ID", **repo, "id": str(ref.id)}
    return {"type": "Url"} if ref.url else _alias(ref.alias, type_)


def _any(ref: DatasetRefAny) -> dict[str, Any]:
    match ref.value:
        case AmbiguousAlias(first, name):
            return {"type": "AmbiguousAlias", "repo": str(first), "name": str(name)}
        case DatasetRef():
            return _local(ref.value, "LocalAlias")
        case _:
            return _remote(ref.value, "RemoteAlias")


@pytest.mark.parametrize("vector", vectors("refs-grammar", "ref"), ids=name_of)
def test_a_reference_has_the_known_parts_or_is_refused(vector):
    if vector["parsed"] is None:
        with pytest.raises(BadInput):
            _parts(vector["kind"], vector["text"])
    else:
        assert _parts(vector["kind"], vector["text"]) == vector["parsed"]


@pytest.mark.parametrize("vector", vectors("refs-grammar", "alias-equality"), ids=name_of)
def test_names_compare_ignoring_case(vector):
    kind = RemoteAlias if vector["a"].count("/") == 2 else DatasetAlias
    a, b = kind.parse(vector["a"]), kind.parse(vector["b"])
    assert (a == b) is vector["equal"]
    assert (hash(a) == hash(b)) is vector["equal"]
    assert str(a) == vector["a"]


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("https://example.com:8080/a/b?c#d", True),
        ("http://user:secret@host/x", True),
        ("http://[::1]:80/", True),
        ("http://127.0.0.1", True),
        ("file:///tmp/x", True),
        ("s3+http://host/bucket", True),
        ("s3:///key", True),
        ("odf+https://h/a b", True),
        ("https://", False),
        ("http://[::1", False),
        ("http://[nonsense]/", False),
        ("http://host:port/", False),
        ("http://host:65536/", False),
        ("http://ho st/", False),
        ("http://a%20b/", False),
        ("http://256.1.1.1/", False),
        ("http://1.2.3.4.5/", False),
        ("s3://bu<cket/", False),
        ("ht-tp://x", False),
        ("a++b://x", False),
        ("+a://x", False),
        ("1a://x", False),
        (" https://x", False),
        ("https:/x", False),
        ("https://x" + "y" * 3000, False),
    ],
)
def test_urls_follow_the_grammar_and_the_rules_of_urls(text, valid):
    if valid:
        assert DatasetRefAny.parse(text).value == DatasetRefRemote(url=text)
    else:
        with pytest.raises(MalformedName):
            check_url(text)


def test_an_open_reference_is_settled_by_whoever_knows_the_repositories():
    ref = DatasetRefAny.parse("a/b")
    assert ref.settled(lambda name: False) == DatasetRef.parse("A/B")
    assert ref.settled(lambda name: name == Name("A")) == DatasetRefRemote.parse("a/b")
    local = DatasetRefAny.parse("b")
    assert local.settled(lambda name: True) == DatasetRef.parse("b")


def test_an_id_behind_a_repository_keeps_both():
    id_ = DatasetId(b"k" * 32)
    ref = DatasetRefAny.parse(f"repo/{id_}")
    assert ref.value == DatasetRefRemote(id=id_, repo=Name("repo"))
    assert str(ref) == f"repo/{id_}"


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("net.%", ["net.example", "NET.x.y"], ["net", "internet.x"]),
        ("%", ["a", "a.b-c"], []),
        ("a%a", ["aa", "a.b.a", "AbA"], ["a", "aab"]),
        ("%b%", ["b", "abc"], ["ac"]),
        ("a%b%c", ["abc", "a.b.c", "axbxbxc"], ["acb", "ab", "ac"]),
        ("a", ["A"], ["ab"]),
        ("%.ex%.c%", ["net.ex.com", "a.example.c"], ["ex.com"]),
    ],
)
def test_a_pattern_matches_any_run_of_characters(pattern, matching, other):
    found = DatasetNamePattern.parse(pattern)
    assert [n for n in matching + other if found.matches(Name(n))] == matching


def test_a_pattern_of_wildcards_only_takes_no_time():
    assert not DatasetNamePattern.parse("a%" * 5000 + "b").matches(Name("a" * 20_000))


def test_values_are_frozen_and_survive_a_pickle():
    values = (
        DatasetId(b"k" * 32),
        Name("a.B"),
        DatasetAlias.parse("a/b"),
        RemoteAlias.parse("r/a/b"),
        DatasetRef.parse("a/b"),
    )
    for value in values:
        assert pickle.loads(pickle.dumps(value)) == value
        with pytest.raises(AttributeError):
            value.key = b""


@pytest.mark.parametrize("text", ["a\n", "a ", "", "a" * 10 + "\0", "a_b", "é"])
def test_a_name_is_letters_and_digits(text):
    with pytest.raises(MalformedName):
        Name(text)


def test_a_key_pair_is_that_of_the_standard():
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    pair = key_pair(seed)
    assert pair.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert pair.dataset_id.key == pair.public
    assert seed.hex() not in repr(pair)
    with refusing("MalformedSeed"):
        key_pair(seed[:31])


def test_a_key_for_verifiers_of_signed_notes_is_that_of_other_implementations():
    """The line that `golang.org/x/mod/sumdb/note` 0.43.0 makes of the same seed and name."""
    line = str(NoteKey("odf.example/ada/weather", key_pair(b"\x01" * 32).public))
    assert line == "odf.example/ada/weather+16ecf017+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
