"""YAML text ⇄ plain values, by the YAML 1.2 core schema, with limits for reading.

Dates stay text, `yes` and `on` stay text, and only `true` and `false` are booleans. Duplicate
keys, keys that are not text, unknown tags and excessive aliases are refused. Output has block
style, list dashes at the column of their key, and unquoted text where that is safe.
Source: ODF "Manifest" text form; YAML 1.2 chapter 10.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..errors import BadInput

MAX_TEXT_BYTES = 4 << 20
MAX_DEPTH = 100
MAX_ALIASED_NODES = 10_000
"""Limit of values that aliases may repeat, including their parts."""
MAX_NUMBER_CHARS = 64

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_AMBIGUOUS = re.compile(
    r"y|n|yes|no|on|off|true|false|null|nil|<<|="
    r"|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:e[-+]?[0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-9]+)+(?:\.[0-9_]*)?",
    re.IGNORECASE | re.ASCII,
)
"""Text that readers of older YAML versions interpret as another type; always quoted."""

_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")
"""Characters that only some YAML versions treat as line breaks; they must be escaped."""

_TAG = "tag:yaml.org,2002:"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class MalformedManifest(BadInput):
    """The text is not a document of the expected kind; `path` is the path of the fault."""

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(f"{message} (at {path})", path=path)
        self.path = path


@dataclass(slots=True)
class _Open:
    """A list or map that has not ended yet."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    nodes: int = 1
    key: str | None = None


@dataclass(slots=True)
class _Composer:
    """Builds values from parser events, without recursion."""

    documents: list[Any] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    aliased: int = 0

    def feed(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._add(_scalar(event), 1, event.anchor)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._open(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self.stack.pop()
                self._add(done.value, done.nodes, done.anchor)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                self.anchors.clear()

    def _open(self, event: Any) -> None:
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!", _TAG + ("seq" if is_list else "map")):
            raise _at(event, f"tag {event.tag} is not known")
        if len(self.stack) >= MAX_DEPTH:
            raise _at(event, f"values are nested deeper than {MAX_DEPTH}")
        if self.stack and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None:
            raise _at(event, "the key of a map is text")
        self.stack.append(_Open([] if is_list else {}, event.anchor))

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            raise _at(event, f"alias *{event.anchor} stands for nothing")
        value, nodes = self.anchors[event.anchor]
        self.aliased += nodes
        if self.aliased > MAX_ALIASED_NODES:
            raise _at(event, f"aliases repeat more than {MAX_ALIASED_NODES} values")
        self._add(value, nodes, None)

    def _add(self, value: Any, nodes: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = (value, nodes)
        if not self.stack:
            self.documents.append(value)
            return
        top = self.stack[-1]
        top.nodes += nodes
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key = _new_key(value, top.value)
        else:
            top.value[top.key] = value
            top.key = None


def _new_key(key: Any, seen: dict[str, Any]) -> str:
    if not isinstance(key, str):
        raise MalformedManifest(f"the key of a map is text, not {key!r}")
    if key in seen:
        raise MalformedManifest(f"key {key!r} appears twice in one map")
    return key


def _at(event: Any, message: str) -> MalformedManifest:
    return MalformedManifest(f"{message}, line {event.start_mark.line + 1}")


def _scalar(event: Any) -> Any:
    if not event.style and event.tag is None:
        return plain_value(event.value)
    if event.tag in (None, "!", _TAG + "str"):
        return event.value
    value = plain_value(event.value)
    if event.tag == _TAG + _kind_of(value) and not isinstance(value, str):
        return value
    raise _at(event, f"tag {event.tag} is not known or does not fit")


def _kind_of(value: Any) -> str:
    return {type(None): "null", bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def plain_value(text: str) -> Any:
    """Return what unquoted text means: null, boolean, number or itself. Numbers with leading zeros
    stay text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] not in "+-.0123456789" or len(text) > MAX_NUMBER_CHARS:
        return text
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.lower().replace(".", ""))
    return text


def load_yaml(text: str) -> list[Any]:
    """Return the documents of a YAML text without empty ones. Raises `MalformedManifest`."""
    composer = _Composer()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.feed(event)
    except yaml.YAMLError as problem:
        raise MalformedManifest(f"not YAML: {_one_line(problem)}") from None
    except UnicodeError:
        raise MalformedManifest("not YAML: text that UTF-8 cannot carry") from None
    return [document for document in composer.documents if document is not None]


def _one_line(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    return f"{what}, line {mark.line + 1}" if mark else str(what)


class _Dumper(yaml.SafeDumper):
    """Writes block style; `plain_value`, which the reader uses, decides what needs quotes."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is not yaml.ScalarNode:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        if not implicit[0]:
            return _TAG + "str"
        if _AMBIGUOUS.fullmatch(value) and isinstance(plain_value(value), str):
            return _TAG + "ambiguous"
        return _TAG + _kind_of(plain_value(value))

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    if _ODD_BREAKS.search(text):
        style = '"'
    return dumper.represent_scalar(_TAG + "str", text, style=style)


def _represent_float(dumper: _Dumper, value: float) -> yaml.Node:
    return dumper.represent_scalar(_TAG + "float", repr(value))


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)


def to_yaml(data: Any) -> str:
    """Return plain values as one YAML document; maps keep their order."""
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
        width=1 << 30,
    )
    return text
