"""State files: what the library writes is read and written alike, anything else is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kartothek_vectors import state_files
from refusals import refusing
from strategies import json_values

from odf_protocol.kartothek import state as states
from odf_protocol.kartothek.keys import BadKartothek, ForbiddenKey
from odf_protocol.kartothek.state import (
    State,
    decode_json,
    decode_msgpack,
    encode_json,
    encode_msgpack,
)

KEY = "u.by-dataset-metadata.json"
LEAST = {"dataset_metadata_version": 4, "dataset_uuid": "u"}
JSON_FILES = [(uuid, path) for uuid, path in state_files() if path.suffix == ".json"]
PACKED_FILES = [(uuid, path) for uuid, path in state_files() if path.suffix == ".zstd"]


def read(document: object) -> State:
    return decode_json(json.dumps(document).encode(), key=KEY, uuid="u")


def packed(document: object) -> bytes:
    return pa.Codec("zstd").compress(msgspec.msgpack.encode(document), asbytes=True)


@pytest.mark.parametrize(("uuid", "path"), JSON_FILES, ids=lambda each: str(each)[-40:])
def test_a_json_state_of_the_library_is_written_again_byte_for_byte(uuid, path):
    raw = path.read_bytes()
    assert encode_json(decode_json(raw, key=path.name, uuid=uuid)) == raw


@pytest.mark.parametrize(("uuid", "path"), PACKED_FILES, ids=lambda each: str(each)[-40:])
def test_a_packed_state_of_the_library_says_the_same_when_written_again(uuid, path):
    state = decode_msgpack(path.read_bytes(), key=path.name, uuid=uuid)
    assert state.metadata
    assert decode_msgpack(encode_msgpack(state), key=path.name, uuid=uuid) == state
    assert decode_json(encode_json(state), key=path.name, uuid=uuid) == state


def test_annotations_of_a_packed_state_may_be_anything():
    uuid, path = next(each for each in PACKED_FILES if each[0] == "packed")
    state = decode_msgpack(path.read_bytes(), key=path.name, uuid=uuid)
    assert state.metadata["run"] == {"nested": [1, 2.5, None, True]}


def test_what_may_be_absent_is_absent():
    state = read(LEAST)
    assert (state.partitions, state.partition_keys, state.indices) == (None, None, {})
    assert read({**LEAST, "partitions": {}, "partition_keys": []}) == State(uuid="u")


def test_names_nobody_knows_are_ignored():
    assert read({**LEAST, "added_later": [1]}) == read(LEAST)


def test_an_index_may_stand_in_the_state():
    found = read({**LEAST, "indices": {"c": {"x": ["a", "b"]}, "d": "u/indices/d/1.parquet"}})
    assert found.indices == {"c": {"x": ("a", "b")}, "d": "u/indices/d/1.parquet"}


@pytest.mark.parametrize("version", [3, 5, "4", 4.0, True, None, [4]])
def test_only_the_integer_four_is_a_version(version):
    with refusing("MalformedState", match="dataset_metadata_version") as refused:
        read({**LEAST, "dataset_metadata_version": version})
    assert refused.value.facts["key"] == KEY


def test_another_uuid_than_that_of_the_file_is_refused():
    with refusing("MalformedState", match="dataset_uuid is 'v'"):
        read({**LEAST, "dataset_uuid": "v"})


@pytest.mark.parametrize(
    "partitions",
    [
        [],
        {"p": []},
        {"p": {}},
        {"p": {"files": {}}},
        {"p": {"files": {"table": 1}}},
        {"p": {"files": {"a": "u/a/p.parquet"}}, "q": {"files": {"b": "u/b/q.parquet"}}},
    ],
)
def test_partitions_that_are_none_are_refused(partitions):
    with refusing("MalformedState"):
        read({**LEAST, "partitions": partitions})


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("/etc/passwd.parquet", "ForbiddenKey"),
        ("u/table/../../x.parquet", "ForbiddenKey"),
        ("./u/table/x.parquet", "ForbiddenKey"),
        ("", "ForbiddenKey"),
        ("u/table/a\0b.parquet", "ForbiddenKey"),
        ("u/table/" + "a" * 5000 + ".parquet", "ForbiddenKey"),
        ("u/table/x.csv", "NotParquet"),
        ("u/table/x.csv.gz", "NotParquet"),
        ("u/table/x", "NotParquet"),
        ("u/table/.parquet", "NotParquet"),
    ],
)
def test_keys_that_leave_the_store_or_are_no_parquet_are_refused(file, error):
    with refusing(error) as refused:
        read({**LEAST, "partitions": {"p": {"files": {"table": file}}}})
    assert refused.value.key == file


def test_the_key_of_an_index_stays_in_the_store_too():
    with pytest.raises(ForbiddenKey):
        read({**LEAST, "indices": {"c": "../c.parquet"}})


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1', b"[" * 100_000, b"null", b"9" * 10_000]
)
def test_broken_json_is_refused_by_name(raw):
    with refusing("MalformedState") as refused:
        decode_json(raw, key=KEY, uuid="u")
    assert refused.value.key == KEY


def test_a_torn_packed_state_is_refused():
    whole = packed(LEAST)
    for end in range(len(whole)):
        with refusing("MalformedState"):
            decode_msgpack(whole[:end], key=KEY, uuid="u")


def test_a_state_that_unpacks_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(states, "MAX_STATE_BYTES", 1000)
    bomb = packed({**LEAST, "metadata": {"a": "x" * 2000}})
    assert len(bomb) < 1000
    with refusing("MalformedState", match="larger than 1000 bytes"):
        decode_msgpack(bomb, key=KEY, uuid="u")


texts = st.text(st.characters(codec="utf-8"), max_size=8)
labels = st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2)
index_keys = st.from_regex(r"u/indices/[a-z]{1,3}\.parquet", fullmatch=True)
whole_states = st.builds(
    State,
    uuid=st.just("u"),
    partitions=st.none()
    | st.dictionaries(
        texts,
        st.from_regex(r"u/table/[a-z%=]{1,5}\.parquet", fullmatch=True).map(
            lambda key: {"table": key}
        ),
        max_size=3,
    ),
    partition_keys=st.none() | st.lists(texts, max_size=3).map(tuple),
    indices=st.dictionaries(texts, index_keys | labels, max_size=2),
    metadata=st.dictionaries(texts, json_values, max_size=2),
)


@given(whole_states)
@settings(deadline=None)
def test_every_state_is_read_as_it_was_written(state):
    assert decode_json(encode_json(state), key=KEY, uuid="u") == state
    assert decode_msgpack(encode_msgpack(state), key=KEY, uuid="u") == state


@given(st.dictionaries(st.sampled_from([*LEAST, "partitions", "indices"]), json_values))
@settings(deadline=None)
def test_any_document_is_a_state_or_is_refused(document):
    for read_one, raw in (
        (decode_json, json.dumps({**LEAST, **document}).encode()),
        (decode_msgpack, packed({**LEAST, **document})),
    ):
        with suppress(BadKartothek):
            assert read_one(raw, key=KEY, uuid="u").uuid == "u"
