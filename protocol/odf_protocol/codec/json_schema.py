"""JSON Schemas of manifests, generated from the model; manifests that the node writes conform.

They describe the canonical text with one spelling of kinds. With `short_forms` they also allow
a bare string instead of a map with only a `kind`, which an editor should accept. The reader
accepts more spellings than either.
Source: JSON Schema 2020-12; the ODF schemas define the fields.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..attributes import Attributes
from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..metadata.block import DatasetSnapshot, MetadataBlock, UnknownEvent
from ..metadata.events import MetadataEvent
from ..multihash import Multihash
from .encode import number_range
from .models import MODELS
from .normalize import SHORT_FORMS
from .tables import TABLES, UNIONS

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ManifestKind = Literal["MetadataBlock", "MetadataEvent", "DatasetSnapshot"]
VERSIONS: dict[str, list[int]] = {
    "MetadataBlock": [2, 3],
    "MetadataEvent": [1],
    "DatasetSnapshot": [1],
}
_CONTENT: dict[str, Any] = {
    "MetadataBlock": MetadataBlock,
    "MetadataEvent": MetadataEvent,
    "DatasetSnapshot": DatasetSnapshot,
}
_TEXT: dict[type, dict[str, Any]] = {
    Multihash: {"type": "string", "format": "multihash", "pattern": "^f([0-9a-f]{2})+$"},
    DatasetId: {"type": "string", "format": "dataset-id", "pattern": "^did:odf:fed01[0-9a-f]{64}$"},
    DatasetRef: {"type": "string", "format": "dataset-ref"},
    DatasetAlias: {"type": "string", "format": "dataset-alias"},
    Instant: {"type": "string", "format": "date-time"},
    Attributes: {"type": "object"},
}


def json_schema(kind: ManifestKind, *, short_forms: bool = False) -> dict[str, Any]:
    """Return the schema of the whole manifest of that kind, including definitions."""
    (content,), definitions = msgspec.json.schema_components(
        [_CONTENT[kind]], schema_hook=lambda type_: _TEXT[type_]
    )
    for name, definition in definitions.items():
        _set_ranges(name, definition)
    _forget_unknown_events(definitions)
    if short_forms:
        _allow_short_forms(definitions)
    return {
        "$schema": DIALECT,
        "title": kind,
        "type": "object",
        "properties": {
            "kind": {"const": kind},
            "version": {"enum": VERSIONS[kind]},
            "content": content,
        },
        "required": ["kind", "version", "content"],
        "additionalProperties": False,
        "$defs": dict(sorted(definitions.items())),
    }


def _set_ranges(name: str, definition: dict[str, Any]) -> None:
    """Set the bounds of integers to those of their wires."""
    if name not in MODELS:
        return
    text_names = {f.name: f.encode_name for f in msgspec.structs.fields(MODELS[name])}
    for field in TABLES.get(name, ()):
        limits = number_range(field)
        if limits is None:
            continue
        schema = definition["properties"][text_names[field.name]]
        for choice in schema.get("anyOf", [schema]):
            if choice.get("type") == "integer":
                choice["minimum"], choice["maximum"] = limits


def _forget_unknown_events(definitions: dict[str, Any]) -> None:
    """Remove the kind for unknown events, which are displayed but never written."""
    name = UnknownEvent.__name__
    if definitions.pop(name, None) is None:
        return
    event = definitions["MetadataBlock"]["properties"]["event"]
    event["anyOf"] = [c for c in event["anyOf"] if c["$ref"] != f"#/$defs/{name}"]
    event["discriminator"]["mapping"].pop("Unknown", None)


def _allow_short_forms(definitions: dict[str, Any]) -> None:
    """Allow bare kinds wherever a union with a short form is allowed."""
    kinds = {
        f"#/$defs/{variant}": variant.removeprefix(union)
        for union in SHORT_FORMS
        for variant in UNIONS[union]
        if not any(field.required for field in TABLES[variant])
    }
    for definition in definitions.values():
        for schema in definition.get("properties", {}).values():
            choices = schema.get("anyOf", [dict(schema)])
            words = [kinds[c["$ref"]] for c in choices if c.get("$ref") in kinds]
            if words:
                schema.pop("$ref", None)
                schema.pop("discriminator", None)
                schema["anyOf"] = [*choices, {"enum": words}]
