"""A post has the same answer, whether its body is here at once or arrives in pieces."""

from __future__ import annotations

import re

import pytest
from servers import wait_until
from service import serving
from tests.app.test_ingest_api import CSV, receipt, with_sources, worker

from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.stores.ports.values import Succeeded, Visibility

BODY = b"city\nA\n"


def in_pieces(body):
    """Of a length that is not told."""
    yield from (body[:1], body[1:])


def told(answer):
    kept = {k: v for k, v in answer.headers.items() if k not in ("date", "x-trace-id", "location")}
    return answer.status_code, kept, re.sub(r'"traceId":"[0-9a-f]*"', "", answer.text)


def audited(service):
    """What the audit log has entries of. They are written a moment after the answer."""
    page = service.node.stores.audit.page(limit=100)
    return {audit_entry.action.replace("/{account}", "") for audit_entry in page}


@pytest.mark.parametrize("tenancy", ["single", "multi"])
def test_how_a_body_comes_does_not_change_its_answer(tmp_path, tenancy):
    before = "" if tenancy == "single" else "/kamu"
    chain = with_sources("default")
    with serving(tmp_path, tenancy=tenancy) as service:
        service.keep(chain, "kamu/open")
        service.keep(with_sources("s1", "s2"), "kamu/two")
        service.keep(with_sources("default"), "kamu/hidden", Visibility.PRIVATE)
        owner, stranger = service.token(), service.token("bob")
        tries = [
            (f"{before}/open", owner, CSV),
            (f"{before}/open", owner, {**CSV, "idempotency-key": '"one"'}),
            (f"{before}/open", owner, {**CSV, "idempotency-key": "k" * 300}),
            (f"{before}/open", owner, {"content-type": "image/png"}),
            (f"{before}/open", owner, {}),
            (f"{before}/open", stranger, CSV),
            (f"{before}/open", None, CSV),
            (f"{before}/two", owner, CSV),
            (f"{before}/hidden", stranger, CSV),
            (f"{before}/none", owner, CSV),
        ]
        with worker(service, lambda _: Succeeded(ingest_job.to_json(receipt(chain.head)))):
            for path, token, headers in tries:
                with service.http(token) as http:
                    url = f"{path}/ingest"
                    pieces = http.post(url, content=in_pieces(BODY), headers=headers)
                    whole = http.post(url, content=BODY, headers=headers)
                if "idempotency-key" in headers and pieces.status_code == 200:
                    assert whole.headers.pop("idempotent-replayed") == "true"
                assert told(whole) == told(pieces)
        wait_until(lambda: "POST /{dataset}/ingest" in audited(service), "entries of posts")


def test_who_will_not_wait_is_told_where_to_look(tmp_path):
    with serving(tmp_path, tenancy="single", public_url="https://node.example/") as service:
        service.keep(with_sources("default"), "kamu/open")
        with service.http(service.token()) as http:
            answer = http.post(
                "/open/ingest", content=BODY, headers={**CSV, "prefer": "respond-async"}
            )
    assert answer.status_code == 202
    assert answer.headers["location"] == f"https://node.example/jobs/{answer.json()['job']}"


def test_a_body_that_is_longer_than_a_job_carries_has_the_same_answers(tmp_path):
    with serving(tmp_path, tenancy="single") as service:
        service.keep(with_sources("default"), "kamu/open")
        with service.http(service.token()) as http:
            for name, status in (("open", 202), ("none", 404)):
                for length in (60_000, 70_000):
                    answer = http.post(
                        f"/{name}/ingest",
                        content=b"city\n" + b"A\n" * (length // 2),
                        headers={**CSV, "prefer": "respond-async"},
                    )
                    assert answer.status_code == status, answer.text


def test_a_parameter_of_another_form_is_named(single):
    tries = {
        "maxVanishPercent": "101",
        "dryRun": "perhaps",
        "onBadRows": "skip",
        "sourceName": "s" * 1001,
    }
    single.keep(with_sources("default"), "kamu/form-of-parameters")
    with single.http(single.token()) as http:
        for name, value in tries.items():
            answer = http.post(
                "/form-of-parameters/ingest", content=BODY, params={name: value, "uploadToken": "x"}
            )
            told = answer.status_code, answer.json()["parameter"]
            assert told == (400, f"query.{name}")


def test_a_node_s_own_addresses_take_no_posts(single):
    with single.http(single.token()) as http:
        assert http.post("/datasets/ingest", content=BODY).status_code == 404
