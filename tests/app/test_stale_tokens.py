"""A token that the node does not know: public data is read without it, with a warning."""

from __future__ import annotations

import httpx
import pytest
from click.testing import CliRunner
from service import seeded, serving, ten_rows

import odf_node
from odf_node.cli.main import main
from odf_node.client.nodes.http import Unauthenticated
from odf_node.client.nodes.limits import LIMITS
from odf_node.client.nodes.reach import ForgivingClient, TokenNotKnown
from odf_protocol.instant import Instant
from odf_storage.stores.ports.values import Visibility

FOREIGN = "ka_0123456789abcdef"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("stale") / "node", tenancy="single") as service:
        service.keep(ten_rows(), "kamu/open")
        service.keep(seeded(), "kamu/closed", Visibility.PRIVATE)
        yield service


@pytest.fixture(params=["foreign", "expired"])
def stale(request, node):
    if request.param == "foreign":
        return FOREIGN
    return node.token(expires_at=Instant.parse("2020-01-01T00:00:00Z"))


@pytest.fixture
def run(node, stale, tmp_path):
    env = {"ODF_NODE_CONFIG": str(tmp_path), "ODF_NODE_TOKEN": stale, "ODF_NODE_URL": node.url}
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words], env=env)


def test_a_program_reads_public_data_and_is_warned(node, stale):
    data = odf_node.open(f"{node.url}/open", token=stale)
    with pytest.warns(TokenNotKnown, match="read without it"):
        assert data.arrow().num_rows == 10
    with pytest.raises(Unauthenticated):
        odf_node.open(f"{node.url}/closed", token=stale).arrow()


@pytest.mark.parametrize(
    "words",
    [
        ("read", "open"),
        ("log", "open"),
        ("dataset", "list"),
        ("dataset", "show", "open"),
        ("sql", "select count(*) from open"),
        ("lookup", "open", "offset=1"),
        ("verify", "open"),
        ("pull", "odf+{url}/open", "{tmp}/smart"),
        ("pull", "{url}/open", "{tmp}/simple"),
    ],
    ids=" ".join,
)
def test_a_command_reads_public_data_and_warns_in_one_line(node, run, tmp_path, words):
    done = run(*(each.format(url=node.url, tmp=tmp_path) for each in words))
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(lines) == 1
    assert "does not know this token" in lines[0]


@pytest.mark.parametrize(
    "words",
    [
        ("describe", "open", "--description", "new"),
        ("dataset", "visibility", "open", "private"),
        ("access", "list", "open"),
        ("read", "closed"),
        ("pull", "odf+{url}/closed", "{tmp}/closed"),
    ],
    ids=" ".join,
)
def test_what_needs_the_token_fails_for_the_token(node, run, tmp_path, words):
    done = run(*(each.format(url=node.url, tmp=tmp_path) for each in words))
    assert done.exit_code == 4
    assert "token" in done.stderr.splitlines()[-1]


def test_a_refused_token_is_sent_once_to_an_origin_and_never_left_out_of_writes():
    sent = []

    def answer(request):
        sent.append((request.method, request.url.host, "authorization" in request.headers))
        return httpx.Response(401 if "authorization" in request.headers else 200, text="ok")

    with ForgivingClient(LIMITS, transport=httpx.MockTransport(answer)) as client:
        headers = {"authorization": "Bearer x"}
        with pytest.warns(TokenNotKnown) as told:
            assert client.get("http://a/one", headers=headers).status_code == 200
        assert len(told) == 1
        assert client.get("http://a/one", headers=headers).status_code == 200
        assert client.post("http://a/one", headers=headers).status_code == 401
    assert sent == [
        ("GET", "a", True),
        ("GET", "a", False),
        ("GET", "a", False),
        ("POST", "a", True),
    ]
