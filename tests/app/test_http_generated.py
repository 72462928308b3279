"""Requests made up from the published contract, good ones and bad ones: no answer is a crash,
and each is one the contract knows, in status, media type, headers and shape."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import checks
from service import Chain, Service, serving, ten_rows

from odf_storage.stores.ports.values import Visibility

schemathesis.serializer.alias("application/vnd.in-toto.bundle", "text/plain")
DOCUMENT = Path(__file__).parents[2] / "openapi" / "openapi.yaml"
SCHEMA = schemathesis.openapi.from_path(DOCUMENT)
OPERATIONS = {one.ok().label: one.ok() for one in SCHEMA.get_all_operations()}
EXAMPLES = int(os.environ.get("ODF_TEST_GENERATED", "4"))
"""Requests per operation and kind of caller; `make torture` makes more."""
ALWAYS = (checks.not_a_server_error, checks.status_code_conformance)
UNLESS_BARE = (
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
)

LISTENED_S = 5
"""To a stream, which has no end; any other answer is waited for as long as it takes."""
ENDS = ("DELETE /{dataset}", "PUT /{dataset}/name")
"""After which a dataset is no longer where it was."""


@pytest.fixture(scope="module")
def chain() -> Chain:
    return ten_rows()


@pytest.fixture(scope="module")
def service(tmp_path_factory, chain) -> Iterator[Service]:
    settings = {"ingest_wait_s": 0, "mirror_threads": 0, "password_work": 1}
    with serving(tmp_path_factory.mktemp("node"), **settings) as running:
        running.keep(chain, "kamu/foo", Visibility.PUBLIC)
        yield running


@pytest.mark.parametrize("caller", ["anybody", "owner"])
@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_answer_is_one_the_contract_knows(service, chain, label, caller):
    token = service.token() if caller == "owner" else None
    name = "foo"
    if label in ENDS:  # as often as there are callers
        name = f"{label.split()[0]}-for-{caller}"
        service.keep(ten_rows(), f"kamu/{name}", Visibility.PUBLIC)
    names = {"dataset": name, "hash": str(next(iter(chain.objects))[1]), "ref": "head"}
    seen = 0

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=OPERATIONS[label].as_strategy())
    def ask(case: Any) -> None:
        nonlocal seen
        seen += 1
        if seen % 4:  # made-up names lead nowhere: most requests go to what is there
            known = {name: names[name] for name in case.path_parameters or () if name in names}
            case.path_parameters = {**(case.path_parameters or {}), **known}
        case.headers.pop("authorization", None)  # made up as well, and of no form
        if token is not None:
            case.headers["authorization"] = f"Bearer {token}"
        seconds = LISTENED_S if label.endswith("/events") else 90
        response = case.call(base_url=service.url, timeout=seconds)
        bare = response.headers.get("content-type") is None or not response.content
        case.validate_response(response, checks=ALWAYS if bare else (*ALWAYS, *UNLESS_BARE))

    ask()


def test_the_dataset_outlived_all_that(service, chain):
    with service.http(service.token()) as http:  # it may be private by now
        assert http.get("/foo/refs/head").status_code == 200
        assert http.get("/system/health").status_code == 200
