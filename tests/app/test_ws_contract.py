"""The published message contract and the messages that are exchanged are the same."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from odf_protocol.transfer import messages
from odf_protocol.transfer.phases import SPEAKER, Side

ASYNCAPI = Path(__file__).parents[1] / "vectors" / "asyncapi-3.0.0.json"
"""The schema of AsyncAPI documents, from the package `@asyncapi/specs` 6.11.1 (Apache-2.0)."""
DOCUMENT = Path(__file__).parents[2] / "asyncapi" / "asyncapi.yaml"
ACTIONS = {Side.CLIENT: "receive", Side.SERVER: "send"}


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return yaml.safe_load(DOCUMENT.read_text())


def _kinds():
    for _, kind in inspect.getmembers(messages, inspect.isclass):
        if issubclass(kind, messages.Message) and kind is not messages.Message:
            yield kind


def _draft7() -> Any:
    """Imported for these tests alone: it makes dozens of parsers, which takes seconds."""
    from jsonschema import Draft7Validator

    return Draft7Validator


def test_the_document_is_one_by_the_schema_of_its_specification(written):
    validator = _draft7()(json.loads(ASYNCAPI.read_text()))
    assert [f"{bad.json_path}: {bad.message}" for bad in validator.iter_errors(written)] == []


def test_the_schema_of_the_specification_would_notice(written):
    validator = _draft7()(json.loads(ASYNCAPI.read_text()))
    assert not validator.is_valid({**written, "chanels": {}})
    assert not validator.is_valid({key: written[key] for key in written if key != "info"})


def test_every_payload_is_described_by_a_schema(written):
    for schema in written["components"]["schemas"].values():
        _draft7().check_schema(schema)


def test_every_message_and_part_is_described(written):
    described = set(written["components"]["schemas"])
    assert {kind.__name__ for kind in _kinds()} <= described


def test_fields_and_what_is_required_are_those_of_the_messages(written):
    for kind in _kinds():
        if kind in messages.REPLIES:
            continue
        schema = written["components"]["schemas"][kind.__name__]
        fields = msgspec.structs.fields(kind)
        assert list(schema.get("properties", {})) == [field.encode_name for field in fields]
        assert schema.get("required", []) == [f.encode_name for f in fields if f.required]


def test_answers_name_their_success_and_all_their_errors(written):
    for reply, (success, errors) in messages.REPLIES.items():
        forms = written["components"]["schemas"][reply.__name__]["oneOf"]
        ok, *failures = forms
        assert ok["properties"]["Ok"]["$ref"].endswith("/" + success.__name__)
        named = [next(iter(form["properties"]["Err"]["properties"])) for form in failures]
        assert named == [error.__name__ for error in errors]


def test_every_message_is_sent_or_received_on_its_channel(written):
    stated = {
        (reference["$ref"].rpartition("/")[2], operation["action"])
        for operation in written["operations"].values()
        for reference in operation["messages"]
    }
    assert stated == {(kind.__name__, ACTIONS[side]) for kind, side in SPEAKER.items()}


def test_every_reference_of_the_document_leads_somewhere(written):
    def walk(value):
        if isinstance(value, dict):
            target = value.get("$ref")
            if target is not None:
                place = written
                for part in target.removeprefix("#/").split("/"):
                    place = place[part]
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(written)
