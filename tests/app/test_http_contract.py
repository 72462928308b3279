"""The published HTTP contract and what is served are the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from odf_node.service.main import PREFIX, build_api
from odf_node.service.setting_groups.words import Tenancy
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_storage.datasets.job_payloads.mirror_job import MirrorReceipt
from odf_storage.datasets.job_payloads.poll_job import PollReceipt
from odf_storage.datasets.job_payloads.transform_job import TransformReceipt

DOCUMENT = Path(__file__).parents[2] / "openapi" / "openapi.yaml"
METHODS = {"get", "head", "put", "post", "patch", "delete"}


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return yaml.safe_load(DOCUMENT.read_text())


@pytest.fixture(scope="module", params=list(Tenancy))
def served(request, tmp_path_factory):
    data = tmp_path_factory.mktemp("contract")
    node = open_node(Settings(data=data, tenancy=request.param))
    yield request.param, build_api(node).openapi()
    node.stores.close()


def _methods(document):
    return {path: METHODS & set(item) for path, item in document["paths"].items()}


def test_the_served_paths_are_the_published_ones(written, served):
    tenancy, document = served
    single, prefix = PREFIX[Tenancy.SINGLE], PREFIX[tenancy]
    published = {
        prefix + path[len(single) :] if path.startswith(single) else path: methods
        for path, methods in _methods(written).items()
    }
    assert published == _methods(document)


def _resolved(document, item):
    name = item.get("$ref", "").rpartition("/")[2]
    return document["components"]["parameters"][name] if name else item


def _query(document, item, method):
    stated = [*item.get("parameters", ()), *item[method].get("parameters", ())]
    resolved = [_resolved(document, parameter) for parameter in stated]
    return {
        (parameter["name"].lower(), parameter["in"])
        for parameter in resolved
        if parameter["in"] == "query" or parameter["name"] in ("odf-event-time", "prefer")
    }


def test_the_served_parameters_are_the_published_ones(written, served):
    tenancy, document = served
    if tenancy is Tenancy.MULTI:
        return
    for path, methods in _methods(document).items():
        for method in methods:
            ours = _query(document, document["paths"][path], method)
            assert ours == _query(written, written["paths"][path], method), (path, method)


def test_every_operation_says_what_it_is_and_answers_something(written):
    for path, item in written["paths"].items():
        for method in METHODS & set(item):
            assert item[method]["summary"], path
            assert item[method]["responses"], path
            assert item[method]["tags"][0] in {tag["name"] for tag in written["tags"]}


@pytest.mark.parametrize(
    "operation",
    [
        "get /events",
        "get /jobs/{job}/events",
        "get /{dataset}/events",
        "get /{dataset}/files",
        "get /{dataset}/lineage",
        "get /{dataset}/lookup",
        "get /{dataset}/read",
        "get /{dataset}/tail",
        "post /datasets",
        "post /platform/file/upload/{token}",
        "post /query",
        "post /{dataset}/webhooks",
        "post /{dataset}/webhooks/{webhook}/ping",
    ],
)
def test_operations_in_which_callers_have_shares_say_so(written, operation):
    method, _, path = operation.partition(" ")
    assert {"429", "503"} <= set(written["paths"][path][method]["responses"])


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


def test_receipts_are_described_field_by_field(written):
    for receipt in (IngestReceipt, PollReceipt, MirrorReceipt, TransformReceipt):
        described = written["components"]["schemas"][receipt.__name__]
        fields = [field.encode_name for field in msgspec.structs.fields(receipt)]
        assert list(described["properties"]) == fields == described["required"]


def test_every_operation_has_a_name_of_its_own_for_generated_clients(written):
    names = [
        item[method].get("operationId", path)
        for path, item in written["paths"].items()
        for method in METHODS & set(item)
    ]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", name)] == []


def test_what_is_served_for_programs_is_the_published_document(written, single, multi):
    """With the addresses of the node."""
    with single.http() as client:
        assert client.get("/openapi.json").json() == written
    with multi.http() as client:
        served = client.get("/openapi.json").json()
    assert set(served["paths"]) == {
        "/{account}" + path if path.startswith("/{dataset}") else path for path in written["paths"]
    }
    assert served["paths"]["/{account}/{dataset}/tail"]["parameters"][0]["name"] == "account"
