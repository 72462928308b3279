"""Manifests: what people may write, what is refused and where, how we write."""

from __future__ import annotations

import base64
import json

import pytest
from known import name_of, vectors

from odf_protocol.codec.manifests import (
    MalformedManifest,
    from_data,
    load_block,
    load_documents,
    load_event,
    load_snapshots,
    manifest,
    to_data,
    to_yaml,
)
from odf_protocol.codec.yaml_text import MAX_ALIASED_NODES, MAX_DEPTH
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    DatasetKind,
    DatasetSnapshot,
    MetadataBlock,
    Seed,
    SetDataSchema,
    SetInfo,
    Transform,
    TransformSql,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt32,
    DataTypeOption,
    DataTypeTimestamp,
    DataTypeUInt8,
)
from odf_protocol.metadata.sources import (
    FetchStep,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    ReadStep,
    ReadStepCsv,
    SourceCachingForever,
)

SNAPSHOT = """
kind: DatasetSnapshot
version: 1
content:
  name: cities
  kind: Root
  metadata:
  - kind: SetInfo
    description: Cities
"""


def event_text(body: str) -> str:
    return f"kind: MetadataEvent\nversion: 1\ncontent:\n{body}"


def refused_at(path: str, data, kind) -> None:
    with pytest.raises(MalformedManifest) as caught:
        from_data(data, kind)
    assert caught.value.path == path
    assert path in str(caught.value)


@pytest.mark.parametrize("vector", vectors("blocks"), ids=name_of)
def test_yaml_and_json_of_a_known_block_say_the_same(vector):
    block, version = load_block(json.dumps(vector["manifest"]))
    written = to_yaml(manifest("MetadataBlock", block, version))
    assert load_documents(written) == [vector.get("canonical", vector["manifest"])]
    assert load_block(written) == (block, version)


@pytest.mark.parametrize("kind", ["Append", "append"])
def test_a_kind_may_start_with_a_small_letter(kind):
    assert from_data({"kind": kind}, MergeStrategy) == MergeStrategyAppend()


@pytest.mark.parametrize("kind", ["UInt8", "uInt8", "uint8"])
def test_a_kind_is_taken_in_three_casings(kind):
    assert from_data({"kind": kind}, DataType) == DataTypeUInt8()


@pytest.mark.parametrize("kind", ["UINT8", "Uint8", "u_int8", " UInt8", ""])
def test_a_kind_in_any_other_casing_is_refused(kind):
    refused_at("$", {"kind": kind}, DataType)


@pytest.mark.parametrize("value", ["Root", "root"])
def test_enum_values_are_taken_in_any_accepted_casing(value):
    seed = {"kind": "seed", "datasetId": f"did:odf:fed01{'00' * 32}", "datasetKind": value}
    assert from_data(seed, Seed).dataset_kind is DatasetKind.Root
    refused_at("$.datasetKind", {**seed, "datasetKind": "ROOT"}, Seed)


def test_field_names_are_not_case_insensitive():
    refused_at("$", {"kind": "SetInfo", "Description": "x"}, SetInfo)


def test_bare_text_stands_for_a_union_of_nothing_but_its_kind():
    schema = {
        "fields": [
            {"name": "a", "type": "int32"},
            {"name": "b", "type": {"kind": "Option", "inner": "UInt8"}},
            {"name": "c", "type": "Timestamp"},
        ]
    }
    assert from_data(schema, DataSchema) == DataSchema(
        fields=(
            DataField(name="a", type=DataTypeInt32()),
            DataField(name="b", type=DataTypeOption(inner=DataTypeUInt8())),
            DataField(name="c", type=DataTypeTimestamp()),
        )
    )
    step = {"kind": "url", "url": "http://x", "cache": "forever"}
    assert from_data(step, FetchStep) == FetchStepUrl(url="http://x", cache=SourceCachingForever())


def test_bare_text_is_no_short_form_of_other_unions():
    with pytest.raises(MalformedManifest):
        from_data("Append", MergeStrategy)


def test_a_list_called_schema_in_a_read_step_is_the_older_name_of_ddl_schema():
    old = {"kind": "Csv", "schema": ["a INT"], "header": True}
    assert from_data(old, ReadStep) == ReadStepCsv(ddl_schema=("a INT",), header=True)
    new = {"kind": "Csv", "schema": {"fields": []}}
    assert from_data(new, ReadStep) == ReadStepCsv(schema=DataSchema(fields=()))
    with pytest.raises(MalformedManifest):
        from_data({**old, "ddlSchema": ["a INT"]}, ReadStep)


def test_text_called_schema_in_set_data_schema_is_the_older_name_of_the_arrow_bytes():
    text = base64.b64encode(b"arrow!").decode()
    old = {"kind": "SetDataSchema", "schema": text}
    assert from_data(old, SetDataSchema) == SetDataSchema(raw_arrow_schema=b"arrow!")
    assert to_data(SetDataSchema(raw_arrow_schema=b"arrow!")) == {
        "kind": "SetDataSchema",
        "rawArrowSchema": text,
    }


@pytest.mark.parametrize("text", ["abc", "ab cd", "abc_", "YWJj\n", "QR==", "QUJ=", 5, ["YWJj"]])
def test_bytes_are_padded_base64_and_nothing_else(text):
    refused_at("$.rawArrowSchema", {"kind": "SetDataSchema", "rawArrowSchema": text}, SetDataSchema)


def test_null_counts_as_unset_where_a_field_is_optional():
    event = {"kind": "AddData", "prevOffset": None, "newData": None, "extra": None}
    assert from_data(event, AddData) == AddData()
    refused_at("$", {"kind": "Sql", "engine": None}, Transform)


def test_null_is_refused_for_date_times_and_bytes():
    refused_at("$.newWatermark", {"kind": "AddData", "newWatermark": None}, AddData)
    refused_at("$.rawArrowSchema", {"kind": "SetDataSchema", "rawArrowSchema": None}, SetDataSchema)


def test_attributes_stand_directly_under_extra_and_are_open():
    event = {"kind": "AddData", "extra": {"x.org/b": [1, {"z": 1, "a": 2.0}], "x.org/a": None}}
    value = from_data(event, AddData)
    assert value.extra.text == '{"x.org/a":null,"x.org/b":[1,{"a":2.0,"z":1}]}'
    assert to_data(value) == event


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("$.event", {"event": {"kind": "AddData", "foo": 1}}),
        ("$", {"foo": None}),
        ("$.sequenceNumber", {"sequenceNumber": 2**64}),
        ("$.sequenceNumber", {"sequenceNumber": 1.0}),
        ("$.sequenceNumber", {"sequenceNumber": True}),
        ("$.systemTime", {"systemTime": "2024-01-01"}),
        ("$.prevBlockHash", {"prevBlockHash": "f16"}),
        ("$.event.newData", {"event": {"kind": "AddData", "newData": {"sizes": 1}}}),
        ("$.event.newData", {"event": {"kind": "AddData", "newData": 5}}),
        ("$.event.keywords[1]", {"event": {"kind": "SetInfo", "keywords": ["a", 1]}}),
        ("$.event.description", {"event": {"kind": "SetInfo", "description": "\ud800"}}),
        ("$.event.extra", {"event": {"kind": "AddData", "extra": [1]}}),
        ("$.event.extra", {"event": {"kind": "AddData", "extra": {"a": 2**64}}}),
        ("$.event", {"event": {"kind": "Unknown", "discriminator": 99}}),
        ("$.event", {"event": {"kind": ["AddData"]}}),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(path, change):
    block = {
        "systemTime": "2024-01-01T00:00:00Z",
        "sequenceNumber": 0,
        "event": {"kind": "SetInfo"},
    }
    assert from_data(block, MetadataBlock).sequence_number == 0
    refused_at(path, {**block, **change}, MetadataBlock)


def test_several_snapshots_may_stand_in_one_text():
    both = load_snapshots(SNAPSHOT + "---" + SNAPSHOT.replace("cities", "rivers") + "---\n")
    assert [str(snapshot.name) for snapshot in both] == ["cities", "rivers"]
    assert isinstance(both[0], DatasetSnapshot)
    assert both[0].metadata == (SetInfo(description="Cities"),)


def test_the_path_of_a_mistake_starts_at_the_manifest():
    with pytest.raises(MalformedManifest) as caught:
        load_event(event_text("  kind: SetInfo\n  keywords: [a, 1]\n"))
    assert caught.value.path == "$.content.keywords[1]"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("$", ""),
        ("$", "[]"),
        ("$", "just text"),
        ("$", "kind: MetadataEvent\nversion: 1\n"),
        ("$.kind", "version: 1\ncontent: {}\n"),
        ("$.kind", "kind: metadataEvent\nversion: 1\ncontent: {kind: SetInfo}\n"),
        ("$.version", "kind: MetadataEvent\nversion: 2\ncontent: {kind: SetInfo}\n"),
        ("$.version", "kind: MetadataEvent\nversion: '1'\ncontent: {kind: SetInfo}\n"),
        ("$.version", "kind: MetadataEvent\nversion: true\ncontent: {kind: SetInfo}\n"),
        ("$", "kind: MetadataEvent\nversion: 1\nextra: 1\ncontent: {kind: SetInfo}\n"),
        ("$", event_text("  kind: SetInfo\n---\n") + event_text("  kind: SetInfo\n")),
    ],
)
def test_an_envelope_that_is_not_exact_is_refused(path, text):
    with pytest.raises(MalformedManifest) as caught:
        load_event(text)
    assert caught.value.path == path


@pytest.mark.parametrize("version", [1, 4])
def test_a_block_manifest_has_version_two_or_three(version):
    vector = vectors("blocks")[0]["manifest"]
    with pytest.raises(MalformedManifest, match="version 2 or 3"):
        load_block(json.dumps({**vector, "version": version}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-01", "2020-01-01"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("0123", "0123"),
        ("0o17", 15),
        ("0x1F", 31),
        ("-12", -12),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!int 1", 1),
        ("! 1", "1"),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_yaml_scalars_follow_the_core_schema(text, value):
    assert load_documents(f"a: {text}\n") == [{"a": value}]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\n",
        '{"a": 1, "a": 2}',
        "1: a\n",
        "[a]: b\n",
        "a: *b\n",
        "a: &x [*x]\n",
        "a: !!python/object:os.system x\n",
        "a: !!binary YWJj\n",
        "a: !mine x\n",
        "a: [1\n",
        "\t- a",
        "a: \x01",
        '{"a": NaN}',
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1),
        "[" * 100_000,
        "- " * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_documents_nobody_can_rely_on_are_refused(text):
    with pytest.raises(MalformedManifest):
        load_documents(text)


def test_aliases_repeat_values_but_not_without_end():
    assert load_documents("a: &x [1, 2]\nb: *x\n") == [{"a": [1, 2], "b": [1, 2]}]
    laughs = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(MalformedManifest, match=str(MAX_ALIASED_NODES)):
        load_documents(laughs)


def test_a_text_over_the_limit_is_not_looked_at():
    with pytest.raises(MalformedManifest, match="larger than 10 bytes"):
        load_documents("a: " + "b" * 10, max_bytes=10)
    with pytest.raises(MalformedManifest, match="larger than 10 bytes"):
        load_documents("ü" * 6, max_bytes=10)


def test_bytes_are_utf_8_with_or_without_a_mark():
    assert load_documents(b"\xef\xbb\xbfa: \xc3\xbc\n") == [{"a": "ü"}]
    with pytest.raises(MalformedManifest, match="UTF-8"):
        load_documents(b"a: \xff\n")


def test_yaml_is_written_in_one_layout():
    data = {
        "kind": "X",
        "number": 2**64 - 1,
        "map": {"empty": {}, "list": [{"a": 1, "b": [True, None]}, "x"]},
        "plain": "SELECT * FROM input",
        "version": "1.0.0",
        "time": "2020-01-01T12:00:00Z",
        "texts": ["yes", "1", "1.5", "null", "", "a: b", "- a", "0123", "12:30", "ü☃"],
        "query": "select\n  1\nfrom x\n",
    }
    assert to_yaml(data) == (
        "kind: X\n"
        "number: 18446744073709551615\n"
        "map:\n"
        "  empty: {}\n"
        "  list:\n"
        "  - a: 1\n"
        "    b:\n"
        "    - true\n"
        "    - null\n"
        "  - x\n"
        "plain: SELECT * FROM input\n"
        "version: 1.0.0\n"
        "time: 2020-01-01T12:00:00Z\n"
        "texts:\n"
        "- 'yes'\n- '1'\n- '1.5'\n- 'null'\n- ''\n- 'a: b'\n- '- a'\n- '0123'\n- '12:30'\n- ü☃\n"
        "query: |\n"
        "  select\n"
        "    1\n"
        "  from x\n"
    )
    assert load_documents(to_yaml(data)) == [data]


def test_output_has_declaration_order_whatever_the_input_order_was():
    value = from_data({"query": "q", "version": "1", "engine": "e", "kind": "sql"}, Transform)
    assert value == TransformSql(engine="e", version="1", query="q")
    assert list(to_data(value)) == ["kind", "engine", "version", "query"]


def test_date_times_are_written_in_utc_with_the_fewest_digits():
    event = {"kind": "AddData", "newWatermark": "2024-01-01t00:30:00.5+01:00"}
    value = from_data(event, AddData)
    assert value.new_watermark == Instant.parse("2023-12-31T23:30:00.5Z")
    assert to_data(value)["newWatermark"] == "2023-12-31T23:30:00.500Z"


def test_values_of_the_model_pass_through_unchanged():
    watermark = Instant.parse("2024-01-01T00:00:00Z")
    assert from_data({"kind": "AddData", "newWatermark": watermark}, AddData) == AddData(
        new_watermark=watermark
    )
