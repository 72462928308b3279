"""Types of TypeScript from the contract, as a program prints them into `src/contract.d.ts`.

They have the form of openapi-typescript, so that openapi-fetch takes them: `paths`, by address and
method, and `components`. Of JSON Schema this knows what the contract uses.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CONTRACT = Path(__file__).parent.parent / "openapi" / "openapi.yaml"
HEAD = "// Made from openapi/openapi.yaml by contract_types.py.\n\n"
METHODS = ("get", "put", "post", "delete", "head", "patch")
WIDTH = 100
NAME = re.compile("[A-Za-z_$][A-Za-z0-9_$]*")
SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
ANY = "{ [name: string]: unknown }"
Json = Mapping[str, Any]


def contract_types(contract: Json) -> str:
    """Return the text of the file. Raises `KeyError` for a reference that leads nowhere."""
    made = _Types(contract)
    paths = {path: made.path(item) for path, item in contract["paths"].items()}
    shared = contract["components"]
    schemas = {name: (made.type(each), each) for name, each in shared["schemas"].items()}
    answers = {name: made.answer(each) for name, each in shared["responses"].items()}
    parts = [HEAD, "export interface paths ", _block(_fields(paths)), "\n\n"]
    inner = [
        f"schemas: {_block(_documented(schemas, schemas))};",
        f"responses: {_block(_fields(answers))};",
    ]
    parts += ["export interface components ", _block(inner), "\n"]
    return "".join(parts)


class _Types:
    def __init__(self, contract: Json) -> None:
        self._contract = contract

    def path(self, item: Json) -> str:
        fields = []
        for method in METHODS:
            if method in item:
                asked = item[method]
                shared = item.get("parameters", ())
                fields += _comment(asked.get("summary"))
                fields.append(f"{method}: {self._operation(asked, shared)};")
        return _block(fields)

    def _operation(self, asked: Json, shared: Any) -> str:
        fields = [f"parameters: {self._parameters([*shared, *asked.get('parameters', ())])};"]
        body = self._at(asked.get("requestBody"))
        if body is not None:
            sign = "" if body.get("required") else "?"
            fields.append(f"requestBody{sign}: {_block([self._content(body)])};")
        answers = {code: self.answer(each) for code, each in sorted(asked["responses"].items())}
        fields.append(f"responses: {_block(f'{code}: {each};' for code, each in answers.items())};")
        return _block(fields)

    def _parameters(self, given: Any) -> str:
        found: dict[str, dict[str, Json]] = {}
        for each in map(self._at, given):
            found.setdefault(each["in"], {})[each["name"]] = each
        fields = []
        for place, named in found.items():
            needed = {name for name, each in named.items() if each.get("required")}
            types = self._named({name: each.get("schema", {}) for name, each in named.items()})
            texts = {name: (made, named[name]) for name, (made, _) in types.items()}
            fields.append(f"{place}{'' if needed else '?'}: {_block(_documented(texts, needed))};")
        return _block(fields)

    def answer(self, answer: Json) -> str:
        if "$ref" in answer:
            return f'components["responses"]["{answer["$ref"].rpartition("/")[2]}"]'
        content = self._content(answer) if "content" in answer else "content?: never;"
        return _block([f"headers: {ANY};", content])

    def _content(self, holder: Json) -> str:
        types = self._named(
            {kind: each.get("schema", {}) for kind, each in holder["content"].items()}
        )
        return f"content: {_block(_fields({kind: made for kind, (made, _) in types.items()}))};"

    def _named(self, schemas: Json) -> dict[str, tuple[str, Json]]:
        return {name: (self.type(each), each) for name, each in schemas.items()}

    def type(self, schema: Json) -> str:
        """The type of a schema: what it says beside `allOf` and the like holds as well."""
        if "$ref" in schema:
            self._at(schema)
            return f'components["schemas"]["{schema["$ref"].rpartition("/")[2]}"]'
        if "const" in schema or "enum" in schema:
            values = schema.get("enum", [schema.get("const")])
            return " | ".join(map(json.dumps, values))
        parts = []
        for word, sign in (("allOf", " & "), ("oneOf", " | "), ("anyOf", " | ")):
            if word in schema:
                parts.append(_joined((self.type(each) for each in schema[word]), sign))
        if "type" in schema or "properties" in schema:
            kinds = schema.get("type", "object")
            kinds = [kinds] if isinstance(kinds, str) else kinds
            parts.append(_joined((self._kind(kind, schema) for kind in kinds), " | "))
        return _joined(parts, " & ") if parts else "unknown"

    def _kind(self, kind: str, schema: Json) -> str:
        if kind == "array":
            return f"{_inside(self.type(schema.get('items', {})))}[]"
        if kind != "object":
            return SIMPLE[kind]
        more = schema.get("additionalProperties")
        rest = f"{{ [name: string]: {self.type(more)} }}" if isinstance(more, dict) else ANY
        if "properties" not in schema:
            return rest
        types = self._named(schema["properties"])
        fields = _block(_documented(types, set(schema.get("required", ()))))
        return f"{fields} & {rest}" if more else fields

    def _at(self, part: Any) -> Any:
        """What a reference names, or the part itself."""
        while part is not None and "$ref" in part:
            place: Any = self._contract
            for name in part["$ref"].removeprefix("#/").split("/"):
                place = place[name]
            part = place
        return part


def _joined(types: Iterable[str], sign: str) -> str:
    parts = list(dict.fromkeys(types))
    return parts[0] if len(parts) == 1 else sign.join(map(_inside, parts))


def _inside(text: str) -> str:
    """A type as a part of a larger one: in parentheses if it is made of several."""
    depth = 0
    for sign in text:
        depth += (sign in "{[(") - (sign in "}])")
        if depth == 0 and sign in "|&":
            return f"({text})"
    return text


def _name(text: str) -> str:
    return text if NAME.fullmatch(text) else json.dumps(text)


def _fields(types: Mapping[str, str]) -> list[str]:
    return [f"{_name(name)}: {each};" for name, each in types.items()]


def _documented(types: Mapping[str, tuple[str, Json]], needed: Any) -> list[str]:
    fields: list[str] = []
    for name, (each, said) in types.items():
        fields += _comment(said.get("description"))
        fields.append(f"{_name(name)}{'' if name in needed else '?'}: {each};")
    return fields


def _comment(text: str | None) -> list[str]:
    if not text:
        return []
    return [f"/** {' '.join(text.split()).replace('*/', '* /')} */"]


def _block(fields: Iterable[str]) -> str:
    lines = list(fields)
    short = " ".join(lines)
    if len(short) <= WIDTH and "\n" not in short and "/**" not in short:
        return f"{{ {short} }}" if short else "{}"
    return "{\n" + "".join(f"{line}\n" for line in _indented(lines)) + "}"


def _indented(fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        yield from ("  " + line for line in field.split("\n"))


if __name__ == "__main__":
    sys.stdout.write(contract_types(yaml.safe_load(CONTRACT.read_text())))
