"""JSON that nests deeper than a reader goes is bad input wherever it is sent."""

from __future__ import annotations

import pytest
from service import serving, ten_rows

DEEP = '{"x":' + "[" * 3_000
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        service.keep(ten_rows())
        with service.http(service.token()) as http:
            yield http


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/query"),
        ("POST", "/verify"),
        ("PUT", "/foo/projections/kartothek"),
        ("PUT", "/foo/visibility"),
        ("POST", "/foo/webhooks"),
        ("POST", "/delta-sharing/shares/kamu/schemas/default/tables/foo/query"),
    ],
)
def test_a_body_that_nests_too_deeply_is_refused(http, method, path):
    answer = http.request(method, path, content=DEEP, headers=JSON)
    assert answer.status_code == 400, answer.text
