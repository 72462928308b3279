"""Logging in at the shell: whose token is kept where, and which hosts ever see it."""

from __future__ import annotations

import json
import os
import re
import stat
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from service import serving, ten_rows
from static_files import answering, send

from odf_node.cli.main import main
from odf_node.cli.shell import tokens as commands
from odf_node.client.nodes.home import Logins
from odf_node.client.uses.device_login import await_session
from odf_node.service.accounts.accounts import create_account, set_password
from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import Visibility

PASSWORD = "anna's own"


class Person:
    """Waits as the command line does, and decides on the page after some looks."""

    def __init__(self, waiting, decision="approve", *, after: int = 1):
        self.waiting, self.decision, self.after, self.pauses = waiting, decision, after, []

    def __call__(self, seconds):
        import httpx

        self.pauses.append(seconds)
        CLOCK.ahead_s += seconds
        if len(self.pauses) == self.after:
            form = {"login": "anna", "password": PASSWORD, "decision": self.decision}
            code = {"userCode": self.waiting.code}
            done = httpx.post(self.waiting.address, data={**form, **code})
            assert done.status_code == 200


class Clock:
    """The node's clock, moved on by the pauses of those who wait."""

    ahead_s = 0

    def __call__(self):
        return Instant(system_clock().ns + self.ahead_s * NANOS)


CLOCK = Clock()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "password_work": 2, "device_login_ttl_s": 60}
    with serving(tmp_path_factory.mktemp("login"), clock=CLOCK, **settings) as service:
        stores = service.node.stores
        anna = create_account(stores.accounts, "anna", os.urandom)
        cost, now = service.node.passwords.cost, service.node.clock()
        set_password(stores.accounts, anna, PASSWORD, os.urandom, now, cost)
        service.keep(ten_rows(), "anna/own", Visibility.PRIVATE)
        CLOCK.ahead_s += 2  # sessions begin after the second in which the password was set
        yield service


def run(config: Path, *words: object, code: int = 0, **env: str):
    given = {"ODF_NODE_CONFIG": str(config), "ODF_NODE_TOKEN": "", **env}
    done = CliRunner().invoke(main, [str(word) for word in words], env=given)
    assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def deciding(monkeypatch):
    """Has somebody decide on the page while the command line waits."""

    def decide(decision="approve", **more):
        def waits(api, waiting):
            return await_session(api, waiting, Person(waiting, decision, **more))

        monkeypatch.setattr(commands, "await_session", waits)

    return decide


def test_a_person_logs_in_by_a_page_and_reads_what_is_theirs(node, tmp_path, deciding):
    deciding(after=2)
    run(tmp_path, "repo", "add", "work", node.url)
    run(tmp_path, "dataset", "show", "work/anna/own", code=3)
    done = run(tmp_path, "login", "work")
    assert f"{node.url}/v/login\n" in done.stderr
    assert re.search(r"type the code [A-Z]{4}-[A-Z]{4}\n", done.stderr)
    assert done.stdout.startswith(f"logged in at {node.url}/ as anna until ")
    assert run(tmp_path, "whoami", node.url).stdout == f"anna at {node.url}/\n"
    assert json.loads(run(tmp_path, "whoami", "work", "--json").stdout)["accountName"] == "anna"
    shown = run(tmp_path, "dataset", "show", "work/own", "--json")
    assert json.loads(shown.stdout)["alias"] == "anna/own"


def test_the_token_is_in_a_file_only_its_person_reads_and_on_no_terminal(node, tmp_path, deciding):
    deciding()
    done = run(tmp_path, "login", node.url, "--json")
    kept = tmp_path / "logins.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    token = Logins(tmp_path).find(node.url).token
    assert token in kept.read_text()
    assert token not in done.stdout + done.stderr
    assert token not in repr(Logins(tmp_path).find(node.url))
    assert json.loads(done.stdout)["accountName"] == "anna"


def test_a_login_that_is_denied_or_too_late_keeps_nothing(node, tmp_path, deciding):
    deciding("deny")
    assert "denied" in run(tmp_path, "login", node.url, code=4).stderr
    deciding(after=100)
    assert "in time" in run(tmp_path, "login", node.url, code=4).stderr
    assert not (tmp_path / "logins.json").exists()


def test_a_logout_forgets_the_token(node, tmp_path, deciding):
    deciding()
    run(tmp_path, "login", node.url)
    assert run(tmp_path, "logout", node.url).stdout == f"logged out at {node.url}/\n"
    assert "nobody is logged in" in run(tmp_path, "whoami", node.url, code=4).stderr
    assert "nobody is logged in" in run(tmp_path, "whoami", code=4).stderr
    run(tmp_path, "logout", node.url, code=4)
    run(tmp_path, "logout", code=2)


def test_a_login_that_is_over_is_not_sent(tmp_path):
    Logins(tmp_path, lambda: 0.0).keep("https://node.example", "old", "anna", 60)
    assert Logins(tmp_path).find("https://node.example") is None
    assert Logins(tmp_path, lambda: 59.0).find("https://NODE.example:443/x").token == "old"


def test_a_token_of_a_login_goes_to_its_own_origin_only(tmp_path):
    heard: dict[str, list[str | None]] = {"own": [], "other": []}

    def listen(name, target, handler):
        heard[name].append(handler.headers.get("authorization"))
        if target():
            send(handler, 307, location=target() + "/info")
        else:
            send(handler, 404)

    with (
        answering(partial(listen, "other", str)) as other,
        answering(partial(listen, "own", lambda: other.url)) as own,
    ):
        Logins(tmp_path).keep(own.url, "secret", "anna", 60)
        run(tmp_path, "dataset", "show", own.url + "/foo", code=3)
        run(tmp_path, "log", own.url + "/foo", code=3)
        run(tmp_path, "dataset", "show", other.url + "/foo", code=3)
        assert set(heard["own"]) == {"Bearer secret"}
        assert set(heard["other"]) == {None}


def test_the_command_line_and_the_environment_go_before_a_login(tmp_path):
    heard: list[str | None] = []

    def listen(handler):
        heard.append(handler.headers.get("authorization"))
        send(handler, 404)

    with answering(listen) as server:
        Logins(tmp_path).keep(server.url, "of-login", "anna", 60)
        words = ("dataset", "show", server.url + "/foo")
        run(tmp_path, *words, "--token", "given", code=3)
        run(tmp_path, *words, code=3, ODF_NODE_TOKEN="mine", ODF_NODE_URL=server.url)
        run(tmp_path, *words, code=3, ODF_NODE_TOKEN="else", ODF_NODE_URL="https://node.example")
        first = [bearer for bearer in heard if bearer]
        assert list(dict.fromkeys(first)) == ["Bearer given", "Bearer mine", "Bearer of-login"]


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b'{"device_code":"c","verification_uri":"javascript:alert(1)","expires_in":9,"interval":1}',
        b'{"device_code":"c","verification_uri":"http://h/v/login","expires_in":0,"interval":1}',
        b'{"device_code":"\\u001b[2J","verification_uri":"http://h","expires_in":9,"interval":1}',
    ],
)
def test_an_answer_that_begins_no_login_is_told(tmp_path, answer):
    with answering(lambda handler: send(handler, 200, answer)) as server:
        done = run(tmp_path, "login", server.url, code=1)
        assert "\x1b" not in done.stderr


def test_a_login_follows_no_redirect(tmp_path):
    with (
        answering(lambda handler: send(handler, 200, b"{}")) as other,
        answering(lambda handler: send(handler, 307, location=other.url)) as server,
    ):
        run(tmp_path, "login", server.url, code=1)
        assert other.requests == []


@pytest.mark.parametrize(
    "words",
    [
        ("read", "work/foo"),
        ("log", "work/foo"),
        ("verify", "work/foo"),
        ("lookup", "work/foo", "a=1"),
        ("lineage", "work/foo"),
        ("ingest", "{file}", "work/foo"),
        ("refresh", "work/foo"),
        ("compact", "work/foo", "--yes"),
        ("reset", "work/foo", "--yes"),
        ("set-watermark", "work/foo", "2026-01-01T00:00:00Z"),
        ("job", "list", "work/foo"),
        ("job", "show", "work", "ID"),
        ("schedule", "list", "work/foo"),
        ("variable", "list", "work/foo"),
        ("webhook", "list", "work/foo"),
        ("projection", "show", "work/foo"),
        ("dataset", "show", "work/foo"),
        ("dataset", "show", "foo", "--node", "work"),
        ("dataset", "list", "--node", "work"),
        ("dataset", "create", "{manifest}", "--node", "work"),
        ("sql", "select 1", "--node", "work"),
        ("watch", "work/foo"),
        ("pull", "work/foo", "{folder}"),
        ("whoami", "work"),
    ],
    ids=" ".join,
)
def test_every_command_takes_the_name_of_a_repository_with_its_token(tmp_path, words):
    (tmp_path / "rows.csv").write_text("a\n1\n")
    (tmp_path / "foo.yaml").write_text(MANIFEST)
    heard: list[str | None] = []

    def listen(handler):
        heard.append(handler.headers.get("authorization"))
        handler.rfile.read(int(handler.headers.get("content-length") or 0))
        send(handler, 403, b'{"message":"no"}')

    places = {"file": "rows.csv", "manifest": "foo.yaml", "folder": "copy"}
    texts = [
        word.format(**{key: tmp_path / name for key, name in places.items()}) for word in words
    ]
    with answering(listen) as server:
        run(tmp_path, "repo", "add", "work", server.url, "--token", "secret")
        run(tmp_path, *texts, code=4)
        assert set(heard) == {"Bearer secret"}


MANIFEST = """\
kind: DatasetSnapshot
version: 1
content: {name: foo, kind: Root, metadata: []}
"""
