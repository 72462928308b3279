"""Our JSON Schemas, and that what we write conforms to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from known import name_of, vectors
from strategies import snapshots

from odf_protocol.codec.manifests import load_documents, manifest
from odf_protocol.codec.normalize import VERSIONS, json_schema

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}
CHECKED = {
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "contentEncoding",
    "default",
    "description",
    "discriminator",
    "enum",
    "format",
    "items",
    "maximum",
    "minimum",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
}


def problems(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """Where a value does not conform; the part of JSON Schema we write, no more."""
    assert set(schema) <= CHECKED, set(schema) - CHECKED
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in schema:
        tried = [problems(value, choice, root, at) for choice in schema["anyOf"]]
        return [] if [] in tried else [f"{at}: none of the choices", *min(tried, key=len)]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: none of {schema['enum']!r}")
    return found + _of_type(value, schema, root, at)


def _of_type(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> list[str]:
    kind = schema.get("type")
    if kind == "integer":
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        fits = type(value) is int and low <= value <= high
        return [] if fits else [f"{at}: {value!r} is no integer in range"]
    if kind is not None and not isinstance(value, TYPES[kind]):
        return [f"{at}: {value!r} is no {kind}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return [f"{at}: {value!r} is not {schema['pattern']}"]
    found = []
    if kind == "array":
        for n, part in enumerate(value):
            found += problems(part, schema["items"], root, f"{at}[{n}]")
    if kind == "object":
        known = schema.get("properties", {})
        found += [f"{at}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, part in value.items():
            if name in known:
                found += problems(part, known[name], root, f"{at}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{at}: unknown {name}")
    return found


@pytest.mark.parametrize("vector", vectors("blocks"), ids=name_of)
def test_canonical_block_manifests_conform(vector):
    schema = json_schema("MetadataBlock")
    assert problems(vector.get("canonical", vector["manifest"]), schema, schema) == []


@pytest.mark.parametrize("vector", vectors("blocks"), ids=name_of)
def test_canonical_events_conform(vector):
    schema = json_schema("MetadataEvent")
    event = vector.get("canonical", vector["manifest"])["content"]["event"]
    document = {"kind": "MetadataEvent", "version": 1, "content": event}
    assert problems(document, schema, schema) == []


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(snapshot=snapshots)
def test_any_snapshot_we_write_conforms(snapshot):
    schema = json_schema("DatasetSnapshot")
    assert problems(manifest("DatasetSnapshot", snapshot), schema, schema) == []


INVALID = [v for v in vectors("blocks-invalid", "block-invalid") if "time" not in v["name"]]


@pytest.mark.parametrize(
    "vector",
    [v for v in INVALID if v["name"] not in ("short-hash", "unknown-hash-code")],
    ids=name_of,
)
def test_manifests_of_no_block_do_not_conform(vector):
    schema = json_schema("MetadataBlock")
    assert problems(vector["manifest"], schema, schema) != []


@pytest.mark.parametrize("kind", sorted(VERSIONS))
def test_a_schema_refers_to_nothing_outside_of_itself(kind):
    schema = json_schema(kind)
    refs = set(re.findall(r"'#/\$defs/(\w+)'", repr(schema)))
    assert refs <= set(schema["$defs"])
    assert "UnknownEvent" not in repr(schema)


@pytest.mark.parametrize("kind", sorted(VERSIONS))
def test_a_schema_for_editors_takes_all_that_the_strict_one_takes(kind):
    strict, editing = json_schema(kind), json_schema(kind, short_forms=True)
    assert strict["$defs"].keys() == editing["$defs"].keys()
    for vector in vectors("blocks"):
        content = vector.get("canonical", vector["manifest"])["content"]
        document = {
            "MetadataBlock": {"kind": kind, "version": 3, "content": content},
            "MetadataEvent": {"kind": kind, "version": 1, "content": content["event"]},
        }.get(kind)
        if document is not None:
            assert problems(document, editing, editing) == []


def test_a_schema_for_editors_takes_the_example_with_its_short_forms():
    weather = Path(__file__).parents[2] / "examples" / "weather" / "weather.yaml"
    (document,) = load_documents(weather.read_text())
    editing = json_schema("DatasetSnapshot", short_forms=True)
    assert problems(document, editing, editing) == []
    document["content"]["metadata"][0]["read"]["schema"]["fields"][0]["type"] = "Sting"
    assert problems(document, editing, editing) != []
