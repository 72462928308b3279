"""Login by providers that others made, as a browser goes through their pages."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from service import serving


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # it uses what its library gives up
def test_a_person_logs_in_by_the_form_of_oidc_provider_mock_and_out_again(tmp_path, monkeypatch):
    mock = pytest.importorskip("oidc_provider_mock", reason="oidc-provider-mock is missing")
    claims = {"preferred_username": "Ann", "groups": ["curators"]}
    user = mock.User(sub="ann", claims=claims)
    with mock.run_server_in_thread(user_claims=[user], require_nonce=True) as server:
        issuer = f"http://localhost:{server.server_port}"
        monkeypatch.setenv("ODF_OIDC_ISSUER", issuer)
        monkeypatch.setenv("ODF_OIDC_CLIENT_SECRET", "any")
        monkeypatch.setenv("ODF_OIDC_ADMIN_GROUPS", '["curators"]')
        with serving(tmp_path) as service, service.http() as browser, httpx.Client() as there:
            sign_in = browser.get("/v/sign-in", headers={"accept": "text/html"}).text
            link = re.search(r'href="(/v/oidc/begin[^"]*)"', sign_in)
            assert link is not None
            begun = browser.get(unescape(link[1]))
            assert there.get(begun.headers["location"]).status_code == 200
            sent = there.post(begun.headers["location"], data={"sub": "ann"})
            assert sent.status_code in {302, 303}, sent.text
            back = browser.get(sent.headers["location"])
            assert "Signed in as ann" in back.text
            account = service.node.stores.accounts.find_account("ann")
            assert account is not None
            assert account.is_admin
            assert service.node.stores.provider_accounts.find(issuer, "ann") == account.id
            out = browser.post("/v/sign-out").text
            leave = re.search(r'href="(http://localhost[^"]*)"', out)
            assert leave is not None
            query = parse_qs(urlsplit(unescape(leave[1])).query)
            assert query["post_logout_redirect_uri"] == [f"{service.url}/"]
            assert there.get(unescape(leave[1])).status_code < 400
