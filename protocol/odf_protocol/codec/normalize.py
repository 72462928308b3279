"""Converts the spellings that people may use for a value to the one form of the model.

It walks over the types of the model and accepts: union kinds and enum values in any of three
casings, bare text for a union with only a kind, field names of 0.34.1, null for unset fields, and
attribute maps and dates as their own types. The strict conversion afterwards finds all other
faults: unknown fields, missing fields, wrong types.
Source: ODF text forms; older spellings from ODF 0.34.1.

JSON Schemas of manifests, generated from the model; manifests that the node writes conform.

They describe the canonical text with one spelling of kinds. With `short_forms` they also allow
a bare string instead of a map with only a `kind`, which an editor should accept. The reader
accepts more spellings than either.
Source: JSON Schema 2020-12; the ODF schemas define the fields.
"""

from __future__ import annotations

import base64
import binascii
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from ..errors import BadInput
from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..metadata.attributes import Attributes
from ..metadata.events import DatasetSnapshot, MetadataBlock, MetadataEvent, UnknownEvent
from ..metadata.schema import Table, Variant
from ..multihash import Multihash
from .decode import MODELS
from .encode import Unencodable, check_value, number_range
from .tables import TABLES, UNIONS
from .yaml_text import MAX_DEPTH, MalformedManifest

Walk = Callable[[Any, str], Any]
"""Converts a value, given its path, to the form of the model."""

SHORT_FORMS = ("DataType", "EventTimeSource", "SourceCaching")
"""Unions for which bare text may replace a map with only that kind."""
TEXT_TYPES: dict[type, Callable[[str], Any]] = {
    Multihash: Multihash.parse,
    DatasetId: DatasetId.parse,
    DatasetRef: DatasetRef.parse,
    DatasetAlias: DatasetAlias.parse,
    Instant: Instant.parse,
}
_NUMBER_WIRES = ("u64", "u32", "i64", "i32", "i16")


def casings(name: str) -> set[str]:
    """Return the accepted spellings of a kind or an enum value."""
    return {name, name[0].lower() + name[1:], name.lower()}


@lru_cache(maxsize=512)
def walk_of(kind: Any) -> Walk:
    """Return the walk for one type of the model, or of anything built from msgspec structs."""
    if get_origin(kind) in (types.UnionType, Union):
        return _union_walk(kind)
    if get_origin(kind) is tuple:
        return _list_walk(get_args(kind)[0])
    if kind in TEXT_TYPES:
        return _parsed_walk(kind)
    if kind is Attributes:
        return _attributes
    if kind is bytes:
        return _bytes
    if kind is str:
        return _text
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum_walk(kind)
    if isinstance(kind, type) and issubclass(kind, Variant):
        return _variants_walk((kind,))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct_walk(kind)
    return _as_it_is


def _union_walk(kind: Any) -> Walk:
    members = tuple(m for m in get_args(kind) if m not in (type(None), UnknownEvent))
    if len(members) == 1:
        return walk_of(members[0])
    if all(isinstance(m, type) and issubclass(m, Variant) for m in members):
        return _variants_walk(members)
    return _as_it_is


def _variants_walk(members: tuple[Any, ...]) -> Walk:
    tags = {member.__struct_config__.tag: member for member in members}
    by_spelling = {s: tag for tag in tags for s in casings(tag)}
    short = any(all(m.__name__.startswith(name) for m in members) for name in SHORT_FORMS)

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, str) and short:
            value = {"kind": value}
        if not isinstance(value, dict):
            return value
        kind = value.get("kind")
        if not isinstance(kind, str):
            raise MalformedManifest("a map with `kind` is expected here", path)
        if kind not in by_spelling:
            known = ", ".join(sorted(tags))
            raise MalformedManifest(f"kind {kind[:100]!r} is not one of {known}", path)
        tag = by_spelling[kind]
        fields = _struct_walk(tags[tag])
        rest = {name: part for name, part in value.items() if name != "kind"}
        return {"kind": tag, **fields(rest, path)}

    return walk


@lru_cache(maxsize=512)
def _struct_walk(kind: type[msgspec.Struct]) -> Walk:
    hints = get_type_hints(kind)
    fields = {f.encode_name: (f.name, hints[f.name]) for f in msgspec.structs.fields(kind)}
    numbers = _number_checks(kind)
    rename = _OLD_NAMES.get(kind.__name__)
    walks: dict[str, Walk] = {}

    def walk(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return value
        if path.count(".") > MAX_DEPTH:
            raise MalformedManifest(f"values are nested deeper than {MAX_DEPTH}", "$")
        if rename is not None:
            value = rename(value)
        out: dict[str, Any] = {}
        for name, part in value.items():
            if name not in fields:
                raise MalformedManifest(f"unknown field {str(name)[:100]!r}", path)
            attribute, hint = fields[name]
            here = f"{path}.{name}"
            if part is None and not _keeps_null(hint):
                continue
            if name not in walks:
                walks[name] = walk_of(hint)
            out[name] = walks[name](part, here)
            if attribute in numbers:
                numbers[attribute](out[name], here)
        return out

    return walk


def _keeps_null(hint: Any) -> bool:
    """Return whether null differs from unset, as for date-times and bytes."""
    return bool({Instant, bytes} & {hint, *get_args(hint)})


def _number_checks(kind: type) -> dict[str, Callable[[Any, str], None]]:
    def check(field: Any) -> Callable[[Any, str], None]:
        def checked(value: Any, path: str) -> None:
            try:
                check_value(kind.__name__, field, value)
            except Unencodable as problem:
                raise MalformedManifest(problem.message, path) from None

        return checked

    if not issubclass(kind, Table):
        return {}
    fields = TABLES.get(kind.__name__, ())
    return {field.name: check(field) for field in fields if field.wire in _NUMBER_WIRES}


def _old_read_step(value: dict[str, Any]) -> dict[str, Any]:
    """Rename a field of 0.34.1, where the list of columns was called `schema`."""
    if isinstance(value.get("schema"), list) and "ddlSchema" not in value:
        return {("ddlSchema" if k == "schema" else k): v for k, v in value.items()}
    return value


def _old_data_schema(value: dict[str, Any]) -> dict[str, Any]:
    """Rename a field of 0.34.1, where the raw Arrow schema was called `schema`."""
    if isinstance(value.get("schema"), str) and "rawArrowSchema" not in value:
        return {("rawArrowSchema" if k == "schema" else k): v for k, v in value.items()}
    return value


_OLD_NAMES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "SetDataSchema": _old_data_schema,
    **{
        name: _old_read_step
        for name, fields in TABLES.items()
        if any(field.name == "ddl_schema" for field in fields)
    },
}


def _list_walk(item: Any) -> Walk:
    def walk(value: Any, path: str) -> Any:
        if not isinstance(value, list | tuple):
            return value
        walk_item = walk_of(item)
        return [walk_item(part, f"{path}[{n}]") for n, part in enumerate(value)]

    return walk


def _enum_walk(kind: type[StrEnum]) -> Walk:
    by_spelling = {spelling: member.value for member in kind for spelling in casings(member.value)}

    def walk(value: Any, _: str) -> Any:
        return by_spelling.get(value, value) if isinstance(value, str) else value

    return walk


def _parsed_walk(kind: type) -> Walk:
    def walk(value: Any, path: str) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise MalformedManifest(f"text is expected here, not {value!r:.100}", path)
        try:
            return TEXT_TYPES[kind](value)
        except BadInput as problem:
            raise MalformedManifest(problem.message, path) from None

    return walk


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _attributes(value: Any, path: str) -> Any:
    if isinstance(value, Attributes):
        return value
    if not isinstance(value, dict):
        raise MalformedManifest("a map of attributes is expected here", path)
    try:
        return Attributes.of(value)
    except BadInput as problem:
        raise MalformedManifest(problem.message, path) from None


def _bytes(value: Any, path: str) -> Any:
    if isinstance(value, bytes):
        return value
    try:
        if isinstance(value, str):
            raw = base64.b64decode(value, validate=True)
            if base64.b64encode(raw).decode() == value:  # refuse bits that belong to no byte
                return raw
    except (binascii.Error, ValueError):
        pass
    raise MalformedManifest("padded base64 is expected here", path)


def _text(value: Any, path: str) -> Any:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MalformedManifest("text with lone surrogates", path) from None
    return value


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
