"""Login by providers that others made, as a browser goes through their pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from servers import free_port
from service import serving

MODULES = "ODF_TEST_NODE_MODULES"
PROGRAM = Path(__file__).parents[1] / "support" / "oidc_provider.mjs"


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


@contextmanager
def oidc_provider(folder: Path, port: int, back: str) -> Iterator[str]:
    """Run oidc-provider (npm) on this port until the block ends; yield its address."""
    modules, node = os.environ.get(MODULES), shutil.which("node")
    if modules is None or node is None:
        pytest.skip(f"{MODULES} names no folder with oidc-provider of npm, or there is no node")
    (folder / "node_modules").symlink_to(modules)
    program = shutil.copy(PROGRAM, folder)
    told = folder / "errors.txt"
    with (
        told.open("w") as errors,
        subprocess.Popen(
            [node, program, str(port), back],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"PATH": os.environ["PATH"], "NODE_NO_WARNINGS": "1"},
        ) as running,
    ):
        try:
            assert running.stdout is not None
            lines = iter(running.stdout.readline, b"")
            assert any(b"ready" in line for line in lines), told.read_text()
            yield f"http://localhost:{port}"
        finally:
            running.kill()


def through_the_forms(there: httpx.Client, place: str, back: str) -> str:
    """Go through the pages of the provider as a person; return where they send the browser."""
    answer = there.get(place)
    for _ in range(12):
        if answer.is_redirect:
            place = urljoin(str(answer.url), answer.headers["location"])
            if place.startswith(back):
                return place
            answer = there.get(place)
            continue
        action = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
        prompt = re.search(r'name="prompt" value="([^"]+)"', answer.text)
        assert action is not None, answer.text
        assert prompt is not None, answer.text
        form = {"prompt": prompt[1], "login": "ann", "password": "any"}
        answer = there.post(urljoin(str(answer.url), unescape(action[1])), data=form)
    raise AssertionError("the provider never sent the browser back")


def test_a_person_logs_in_by_oidc_provider_whose_groups_are_in_userinfo(tmp_path, monkeypatch):
    port, own = free_port(), free_port()
    back = f"http://127.0.0.1:{own}/v/oidc/callback"
    folder = tmp_path / "provider"
    folder.mkdir()
    with oidc_provider(folder, port, back) as issuer:
        monkeypatch.setenv("ODF_OIDC_ISSUER", issuer)
        monkeypatch.setenv("ODF_OIDC_CLIENT_ID", "node")
        monkeypatch.setenv("ODF_OIDC_CLIENT_SECRET", "a secret+of%ours")
        monkeypatch.setenv("ODF_OIDC_ADMIN_GROUPS", '["curators"]')
        with (
            serving(tmp_path / "data", port=own) as service,
            service.http() as browser,
            httpx.Client(timeout=60) as there,
        ):
            begun = browser.get("/v/oidc/begin").headers["location"]
            came = through_the_forms(there, begun, back)
            assert "iss=" in came
            assert "Signed in as ann" in browser.get(came).text
            account = service.node.stores.accounts.find_account("ann")
            assert account is not None
            assert account.is_admin
