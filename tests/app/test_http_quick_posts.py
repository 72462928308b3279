"""The short way of small posts gives the answers of the long one."""

from __future__ import annotations

import re

import pytest
from servers import wait_until
from service import serving

from odf_node.app.service.ingest.quick_posts import QuickPosts
from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.stores.ports.values import Succeeded, Visibility
from tests.app.test_ingest_api import CSV, receipt, with_sources, worker

BODY = b"city\nA\n"
LONG_WAY = {"dryRun": "false"}
"""What is the default anyhow."""


@pytest.fixture
def taken(monkeypatch):
    """Paths of posts that took the short way."""
    paths = []
    take = QuickPosts._take

    async def watched(self, address, told, scope, *rest):
        paths.append(scope["path"])
        await take(self, address, told, scope, *rest)

    monkeypatch.setattr(QuickPosts, "_take", watched)
    return paths


def told(answer):
    kept = {k: v for k, v in answer.headers.items() if k not in ("date", "x-trace-id", "location")}
    return answer.status_code, kept, re.sub(r'"traceId":"[0-9a-f]*"', "", answer.text)


def audited(service):
    """What the audit log has entries of. They are written a moment after the answer."""
    page = service.node.stores.audit.page(limit=100)
    return {audit_entry.action.replace("/{account}", "") for audit_entry in page}


@pytest.mark.parametrize("tenancy", ["single", "multi"])
def test_both_ways_give_the_same_answers(tmp_path, taken, tenancy):
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
                    long = http.post(url, content=BODY, headers=headers, params=LONG_WAY)
                    short = http.post(url, content=BODY, headers=headers)
                if "idempotency-key" in headers and long.status_code == 200:
                    assert short.headers.pop("idempotent-replayed") == "true"
                assert told(short) == told(long)
        wait_until(lambda: "POST /{dataset}/ingest" in audited(service), "entries of posts")
    assert taken == [f"{path}/ingest" for path, _, _ in tries]


def test_who_will_not_wait_is_told_where_to_look(tmp_path, taken):
    with serving(tmp_path, tenancy="single", public_url="https://node.example/") as service:
        service.keep(with_sources("default"), "kamu/open")
        with service.http(service.token()) as http:
            answer = http.post(
                "/open/ingest", content=BODY, headers={**CSV, "prefer": "respond-async"}
            )
    assert answer.status_code == 202
    assert answer.headers["location"] == f"https://node.example/jobs/{answer.json()['job']}"
    assert taken == ["/open/ingest"]


@pytest.mark.parametrize(
    ("headers", "params"),
    [
        (CSV, {"sourceName": "default"}),
        ({**CSV, "odf-event-time": "2024-01-01T00:00:00Z"}, {}),
        ({**CSV, "content-encoding": "identity"}, {}),
        ({"content-type": "multipart/form-data; boundary=x"}, {}),
    ],
)
def test_what_asks_for_more_takes_the_long_way(tmp_path, taken, headers, params):
    with serving(tmp_path, tenancy="single") as service:
        service.keep(with_sources("default"), "kamu/open")
        headers = {"prefer": "respond-async", **headers}
        with service.http(service.token()) as http:
            http.post("/open/ingest", content=BODY, headers=headers, params=params)
            http.post("/open/ingest", content=b"x" * 70_000, headers={"prefer": "respond-async"})
            http.post("/datasets/ingest", content=BODY)
    assert taken == []
