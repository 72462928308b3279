"""The tables of the codec against the published wire model, and against our own classes."""

from __future__ import annotations

import msgspec
import pytest
from known import document

from odf_protocol.codec.blocks import MANIFEST_FIELDS
from odf_protocol.codec.decode import ENUM_TYPES, MODELS
from odf_protocol.codec.tables import ENUMS, TABLES, UNIONS, Field

MODEL = {
    entry["name"]: entry
    for entry in document("wire-model")["types"]
    if entry.get("role") in ("block", "snapshot", "engine")
}
OF_KIND = {
    kind: {name: entry for name, entry in MODEL.items() if entry["kind"] == kind}
    for kind in ("table", "union", "enum")
}
WRAPPERS = {name: name.removesuffix("Wrapper") for name in MODEL if name.endswith("Wrapper")}
SPECIAL = {"Manifest", "ExtraAttributes", *WRAPPERS}
PLAIN_TABLES = sorted(set(OF_KIND["table"]) - SPECIAL)
SCALARS = {
    "uint64": "u64",
    "uint32": "u32",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "bool": "bool",
}
TEXTS = {"dataset-ref": "dataset_ref", "dataset-alias": "dataset_alias"}


def _wire(field: dict) -> tuple[str, str | None]:
    """Kind of value and type referred to, as `tables` says it."""
    kind, meaning = field["type"], field.get("semantic", "")
    if kind in SCALARS:
        return SCALARS[kind], None
    if kind == "string":
        return TEXTS.get(field.get("text_format", ""), "string"), None
    if kind == "[ubyte]":
        if meaning.startswith("multihash"):
            return "multihash", None
        return ("dataset_id", None) if meaning.startswith("did:odf") else ("bytes", None)
    if kind in ("Timestamp", "ExtraAttributes"):
        return {"Timestamp": "timestamp", "ExtraAttributes": "attributes"}[kind], None
    if kind == "[string]":
        return "[string]", None
    if kind.strip("[]") in WRAPPERS:
        return "[union]", WRAPPERS[kind.strip("[]")]
    if kind.startswith("["):
        return "[table]", kind.strip("[]")
    return MODEL[kind]["kind"], kind


def _check(fields: tuple[Field, ...], entry: dict) -> None:
    assert [f.name for f in fields] == [f["name"] for f in entry.get("fields", [])]
    slot = 0
    for field, published in zip(fields, entry.get("fields", []), strict=True):
        assert (field.wire, field.of) == _wire(published), field.name
        assert field.required == published["required"], field.name
        if field.wire == "union":
            assert published["type_field"]["id"] == slot
            slot += 1
        assert published["id"] == slot
        slot += 1
        if "optional_scalar" in published:
            assert published["optional_scalar"] == (not field.required), field.name
    assert entry.get("slot_count", 0) == slot


def test_every_table_of_blocks_snapshots_and_engines_is_described():
    assert sorted(TABLES) == PLAIN_TABLES


@pytest.mark.parametrize("name", PLAIN_TABLES)
def test_fields_slots_and_presence_are_those_of_the_wire_model(name):
    _check(TABLES[name], MODEL[name])


def test_the_manifest_is_that_of_the_wire_model():
    _check(MANIFEST_FIELDS, MODEL["Manifest"])


def test_attribute_maps_are_one_string():
    assert [f["type"] for f in MODEL["ExtraAttributes"]["fields"]] == ["string"]


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_a_wrapper_holds_one_union_and_nothing_else(name):
    _check((Field("value", "union", WRAPPERS[name], required=True),), MODEL[name])


@pytest.mark.parametrize("name", sorted(OF_KIND["union"]))
def test_variants_stand_at_their_discriminator(name):
    published = MODEL[name]["variants"]
    assert list(UNIONS[name]) == [variant["name"] for variant in published]
    assert [variant["tag"] for variant in published] == list(range(1, len(published) + 1))
    for variant in published:
        assert MODELS[variant["name"]].__struct_config__.tag == variant["text_kind"]


@pytest.mark.parametrize("name", sorted(OF_KIND["enum"]))
def test_enum_values_and_carriers_are_those_of_the_wire_model(name):
    carrier, names = ENUMS[name]
    assert carrier == SCALARS[MODEL[name]["base"]]
    assert [(v["name"], v["value"]) for v in MODEL[name]["values"]] == [
        (value, at) for at, value in enumerate(names)
    ]
    assert [member.value for member in ENUM_TYPES[name]] == list(names)


def test_no_union_and_no_enum_is_left_over():
    assert set(UNIONS) == set(OF_KIND["union"])
    assert set(ENUMS) == set(OF_KIND["enum"])


@pytest.mark.parametrize("name", sorted(TABLES))
def test_tables_and_models_name_the_same_fields_in_the_same_order(name):
    fields = msgspec.structs.fields(MODELS[name])
    assert [f.name for f in fields] == [f.name for f in TABLES[name]]
    assert [f.required for f in fields] == [f.required for f in TABLES[name]]
    published = MODEL[name].get("fields", [])
    assert [f.encode_name for f in fields] == [f["text_name"] for f in published]


def test_every_nested_table_is_itself_described():
    for name, fields in TABLES.items():
        for field in fields:
            described = {"table": TABLES, "[table]": TABLES, "enum": ENUMS}
            described |= {"union": UNIONS, "[union]": UNIONS}
            if field.of is not None:
                assert field.of in described[field.wire], f"{name}.{field.name}"
    assert {variant for variants in UNIONS.values() for variant in variants} <= set(TABLES)
