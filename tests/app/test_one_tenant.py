"""On a node with one tenant, accounts are shown what they may do, and told why they may not."""

from __future__ import annotations

import pytest
from service import serving

HTML = {"accept": "text/html"}
SEED = {
    "kind": "DatasetSnapshot",
    "version": 1,
    "content": {"name": "own", "kind": "Root", "metadata": []},
}


@pytest.fixture(scope="module", params=["single", "multi"])
def node(request, tmp_path_factory):
    data = tmp_path_factory.mktemp(request.param) / "node"
    with serving(data, tenancy=request.param) as service:
        service.tenancy = request.param
        yield service


@pytest.mark.parametrize("account", ["kamu", "anna"])
def test_publish_is_shown_to_who_may_make_datasets(node, account):
    may = account == "kamu" or node.tenancy == "multi"
    with node.http() as client:
        client.headers.update({**HTML, "origin": node.url})
        client.post("/v/sign-in", data={"token": node.token(account)})
        home, form = client.get("/").text, client.get("/v/publish").text
        own = client.get(f"/v/accounts/{account}").text
    assert account in home
    assert (">Publish</a>" in home) is may
    assert ("has one tenant" in form) is not may
    assert ("which has one tenant" in own) is not may
    with node.http(node.token(account)) as client:
        answer = client.post("/datasets", json=SEED)
    assert answer.status_code == (201 if may else 403)
    if not may:
        assert "only the account kamu makes datasets" in answer.json()["message"]
