"""A second writer of blocks: from the wire model and the rules of writing, on the official builder.

It takes the text form of a block, shares no line with the product, and says what its bytes are.
"""

from __future__ import annotations

import base64
import json
import struct
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from flatbuffers import Builder

MODEL = json.loads((Path(__file__).parents[1] / "vectors" / "wire-model.json").read_text())
TYPES = {each["name"]: each for each in MODEL["types"]}
BLOCK_KIND = MODEL["constants"]["multicodec"]["odf-metadata-block"]
ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def block_bytes(text_form: dict[str, Any], version: int) -> bytes:
    """A block in its manifest."""
    inner = _Writer(version)
    inner.builder.Finish(inner.table("MetadataBlock", text_form))
    outer = Builder(0)
    content = outer.CreateByteVector(bytes(inner.builder.Output()))
    outer.StartObject(3)
    outer.PrependInt64Slot(0, BLOCK_KIND, 0)
    outer.PrependInt32Slot(1, version, 0)
    outer.PrependUOffsetTRelativeSlot(2, content, 0)
    outer.Finish(outer.EndObject())
    return bytes(outer.Output())


class _Writer:
    def __init__(self, version: int) -> None:
        self.builder = Builder(0)
        self._version = version

    def table(self, name: str, value: dict[str, Any]) -> int:
        """First the parts that lie elsewhere, in the order of fields; then all fields, in turn."""
        fields = [f for f in TYPES[name]["fields"] if value.get(f["text_name"]) is not None]
        unknown = set(value) - {f["text_name"] for f in fields if f["text_name"] in value}
        assert all(value[name] is None for name in unknown), f"{name} has no {unknown}"
        made = {f["id"]: self._elsewhere(f, value[f["text_name"]]) for f in fields}
        self.builder.StartObject(TYPES[name]["slot_count"])
        for field in fields:
            self._slot(field, value[field["text_name"]], made[field["id"]])
        return int(self.builder.EndObject())

    def _elsewhere(self, field: dict[str, Any], value: Any) -> Any:
        """Where the part was written; with the discriminator, if it is a union."""
        kind = field["type"]
        if kind == "string":
            return self.builder.CreateString(value.encode())
        if kind == "[ubyte]":
            return self.builder.CreateByteVector(_bytes(field, value))
        if kind == "ExtraAttributes":
            return self.table(kind, {"entries": json_text(value)})
        if kind[0] == "[":
            return self._vector(kind[1:-1], value)
        described = TYPES.get(kind, {"kind": "scalar"})
        if described["kind"] == "union":
            return self._union(described, value)
        return self.table(kind, value) if described["kind"] == "table" else None

    def _union(self, union: dict[str, Any], value: dict[str, Any]) -> tuple[int, int]:
        found = next(v for v in union["variants"] if v["text_kind"] == value["kind"])
        rest = {name: part for name, part in value.items() if name != "kind"}
        return found["tag"], self.table(found["name"], rest)

    def _vector(self, item: str, values: list[Any]) -> int:
        if item == "string":
            offsets = [self.builder.CreateString(value.encode()) for value in values]
        elif item.endswith("Wrapper"):
            offsets = [self.table(item, {"value": value}) for value in values]
        else:
            offsets = [self.table(item, value) for value in values]
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _slot(self, field: dict[str, Any], value: Any, made: Any) -> None:
        builder, slot = self.builder, field["id"]
        if field["type"] == "Timestamp":
            builder.Prep(4 if self._version == 3 else 1, 16)
            builder.head -= 16
            builder.Bytes[builder.head : builder.head + 16] = _timestamp(value)
            builder.Slot(slot)
        elif isinstance(made, tuple):
            builder.PrependUint8Slot(field["type_field"]["id"], made[0], 0)
            builder.PrependUOffsetTRelativeSlot(slot, made[1], 0)
        elif made is not None:
            builder.PrependUOffsetTRelativeSlot(slot, made, 0)
        else:
            kind = field["type"]
            if kind in TYPES:
                numbers = {each["name"]: each["value"] for each in TYPES[kind]["values"]}
                kind, value = TYPES[kind]["base"], numbers[value]
            if field["optional_scalar"] or value != field["default"]:
                getattr(builder, f"Prepend{kind.capitalize()}")(value)
                builder.Slot(slot)


def _bytes(field: dict[str, Any], value: str) -> bytes:
    match field.get("text_format"):
        case "multihash":
            return bytes.fromhex(value.removeprefix("f"))
        case "dataset-id":
            return bytes.fromhex(value.removeprefix("did:odf:f"))
    return base64.b64decode(value)


def _timestamp(text: str) -> bytes:
    day, _, clock = text.removesuffix("Z").partition("T")
    whole, _, fraction = clock.partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    when = date.fromisoformat(day)
    ordinal = (when - date(when.year, 1, 1)).days + 1
    since = hours * 3600 + minutes * 60 + seconds
    return struct.pack("<iHxxII", when.year, ordinal, since, int(fraction.ljust(9, "0")))


def json_text(value: Any) -> str:
    """Attributes: no blanks, keys in the order of their bytes, numbers as short as they go."""
    match value:
        case str():
            return f'"{"".join(map(_character, value))}"'
        case float():
            return _float_text(value)
        case list():
            return f"[{','.join(map(json_text, value))}]"
        case dict():
            names = sorted(value, key=str.encode)
            parts = [f"{json_text(name)}:{json_text(value[name])}" for name in names]
            return "{" + ",".join(parts) + "}"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _character(one: str) -> str:
    return ESCAPES.get(one, f"\\u{ord(one):04x}" if ord(one) < 0x20 else one)


def _float_text(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    power = len(text) - 1 + int(exponent)
    text = text.rstrip("0") or "0"
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if -5 <= power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    if 0 <= power <= 15:
        return f"{minus}{text[: power + 1].ljust(power + 1, '0')}.{text[power + 1 :] or '0'}"
    return f"{minus}{text[0]}{'.' if text[1:] else ''}{text[1:]}e{power:+}"
