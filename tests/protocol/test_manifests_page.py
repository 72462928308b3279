"""docs/manifests.md and the decoder, held against each other both ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from odf_protocol.codec.decode import MODELS
from odf_protocol.codec.manifests import (
    from_data,
    load_documents,
    load_event,
    load_snapshots,
    to_data,
    to_yaml,
)
from odf_protocol.codec.normalize import TEXT_TYPES
from odf_protocol.codec.tables import ENUMS, TABLES, UNIONS, Field

PAGE = (Path(__file__).parents[2] / "docs" / "manifests.md").read_text()
SECTIONS = {
    heading.replace("::", ""): text
    for heading, text in re.findall(
        r"^###? (.*?)\n(.*?)(?=^###? |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
}
DOCUMENTS = SECTIONS.pop("The documents")
SECTIONS.pop("Parts of blocks")
ROOTS = ("DatasetSnapshot", "MetadataBlock")
TYPES = {
    "u64": "integer",
    "u32": "integer",
    "i32": "integer",
    "bool": "boolean",
    "string": "text",
    "bytes": "Base64",
    "multihash": "hash",
    "dataset_id": "dataset id",
    "dataset_ref": "name or id",
    "dataset_alias": "name",
    "timestamp": "time",
    "attributes": "map",
    "[string]": "list of text",
}


def reachable() -> set[str]:
    """Tables, unions and enums that a manifest may hold."""
    found: set[str] = set()
    todo = [*ROOTS]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [field.of for field in TABLES.get(name, ()) if field.of]
            todo += UNIONS.get(name, ())
    return found


REACHABLE = reachable()
BARE = {
    variant
    for union in REACHABLE & set(UNIONS)
    for variant in UNIONS[union]
    if not TABLES[variant] and union != "MetadataEvent"
}
"""Kinds without a field: a row in the table of their union says all about them."""


def rows(name: str) -> list[list[str]]:
    """The cells of all tables of a section whose first cell is a word of code."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in SECTIONS[name].splitlines()
        if line.startswith("| `")
    ]


def words(name: str) -> list[str]:
    return [row[0].strip("`") for row in rows(name)]


def kind_of(union: str, variant: str) -> str:
    return variant if union == "MetadataEvent" else variant.removeprefix(union)


def type_text(field: Field) -> str:
    """What the column of types says, links taken out."""
    if field.of is None:
        return TYPES[field.wire]
    return f"list of {field.of}" if field.wire.startswith("[") else field.of


def fields_of(name: str) -> dict[str, Field]:
    """The fields of a table by their names in text."""
    text = {each.name: each.encode_name for each in msgspec.structs.fields(MODELS[name])}
    return {text[field.name]: field for field in TABLES[name]}


def examples(name: str) -> list[Any]:
    return [
        document
        for block in re.findall(r"```yaml\n(.*?)```", SECTIONS[name], re.DOTALL)
        for document in load_documents(block)
    ]


def model(name: str) -> Any:
    if name in MODELS:
        return MODELS[name]
    members = [MODELS[variant] for variant in UNIONS[name]]
    kind = members[0]
    for member in members[1:]:
        kind = kind | member
    return kind


def decoded(name: str) -> list[Any]:
    return [from_data(example, model(name)) for example in examples(name)]


def parts(value: Any) -> list[str]:
    """The names of all tables of the model within a value."""
    if isinstance(value, tuple):
        return [name for part in value for name in parts(part)]
    if isinstance(value, msgspec.Struct) and type(value) not in TEXT_TYPES:
        inner = (getattr(value, field) for field in value.__struct_fields__)
        return [type(value).__name__, *(name for part in inner for name in parts(part))]
    return []


def test_the_page_has_a_section_for_everything_a_manifest_may_hold_and_no_other():
    assert set(SECTIONS) == REACHABLE - BARE


@pytest.mark.parametrize("name", sorted((REACHABLE & set(TABLES)) - BARE))
def test_the_fields_of_a_section_are_those_the_decoder_knows(name):
    fields = fields_of(name)
    assert sorted(words(name)) == sorted(fields)
    for word, kind, default, meaning in rows(name):
        field = fields[word.strip("`")]
        assert re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", kind) == type_text(field), word
        assert (default == "required") == field.required, word
        assert meaning, word


@pytest.mark.parametrize("name", sorted(REACHABLE & set(UNIONS)))
def test_the_kinds_of_a_section_are_those_the_decoder_knows(name):
    assert sorted(words(name)) == sorted(kind_of(name, variant) for variant in UNIONS[name])


@pytest.mark.parametrize("name", sorted(REACHABLE & set(ENUMS)))
def test_the_words_of_a_section_are_those_the_decoder_knows(name):
    assert words(name) == list(ENUMS[name][1])


@pytest.mark.parametrize("name", sorted((REACHABLE & set(TABLES)) - BARE))
def test_the_examples_of_a_section_use_each_of_its_fields(name):
    used = {field for example in examples(name) for field in example}
    assert used - {"kind"} == set(fields_of(name)) - {"kind"}
    assert examples(name)


@pytest.mark.parametrize("name", sorted(REACHABLE - BARE - set(ENUMS)))
def test_the_decoder_takes_each_example_and_what_it_writes_of_it(name):
    for value in decoded(name):
        (written,) = load_documents(to_yaml(to_data(value)))
        assert from_data(written, model(name)) == value


def test_every_kind_stands_in_an_example():
    shown = {
        part
        for name in REACHABLE - BARE - set(ENUMS)
        for value in decoded(name)
        for part in parts(value)
    }
    assert REACHABLE & set(TABLES) <= shown


def test_the_documents_are_taken_whole():
    snapshot, event = re.findall(r"```yaml\n(.*?)```", DOCUMENTS, re.DOTALL)
    assert load_snapshots(snapshot)
    assert load_event(event)
