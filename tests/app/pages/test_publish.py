"""The form that publishes a file: who may use it, and what it refuses."""

from __future__ import annotations

import html
import re

import pytest
from service import serving

from odf_storage.stores.ports.values import Scope


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    data = tmp_path_factory.mktemp("publish")
    limits = {"max_upload_bytes": 100_000, "max_uploads": 3, "ingest_wait_s": 0.2}
    with serving(data, tenancy="multi", **limits) as service:
        yield service


@pytest.fixture
def visitor(node):
    def visit(account="anna", *scopes):
        client = node.http()
        if account:
            client.cookies.set("odf_session", node.token(account, *scopes))
        opened.append(client)
        return client

    opened = []
    yield visit
    for client in opened:
        client.close()


def send(client, name="a.csv", content=b"id,n\n1,2\n2,3\n", **more):
    return client.post("/v/publish", files={"file": (name, content)}, **more)


def test_strangers_are_asked_to_sign_in(visitor):
    stranger = visitor(None)
    answer = stranger.get("/v/publish")
    assert (answer.status_code, answer.headers["location"]) == (303, "/v/sign-in?next=/v/publish")
    assert send(stranger).status_code == 401
    assert stranger.post("/v/publish/dataset", data={"upload": "x"}).status_code in (400, 401)


def test_a_token_that_only_reads_publishes_nothing(visitor):
    assert send(visitor("reader", Scope.READ)).status_code == 403


def test_forms_of_other_sites_are_refused(visitor):
    client = visitor("bert")
    elsewhere = {"origin": "https://evil.example"}
    assert send(client, headers=elsewhere).status_code == 403
    answer = client.post("/v/publish/dataset", data={"upload": "x"}, headers=elsewhere)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("name", "content", "status", "told"),
    [
        ("a.csv", b"x" * 100_001, 400, "Content too large"),
        ("a.xlsx", b"PK\x05\x06", 400, "cannot tell the format"),
        ("a.csv", b"", 400, "no records"),
        ("a.csv", b"a\n\xff\n", 400, "line 2"),
        ("a.zip", b"PK\x03\x04", 400, "no intact zip"),
        ("", b"", 400, ""),
    ],
)
def test_a_file_that_cannot_be_published_says_why(visitor, name, content, status, told):
    answer = send(visitor("carl"), name, content)
    assert answer.status_code == status
    assert told in html.unescape(answer.text)


def test_a_file_that_cannot_be_read_as_it_is_is_read_as_the_visitor_says(visitor):
    client = visitor("carl")
    refused = send(client, "a.csv", "id;place\n1;Zürich\n2;Köln\n".encode("cp1252"))
    assert refused.status_code == 400
    (upload,) = re.findall(r'name="upload" value="([^"]+)"', refused.text)
    assert 'name="encoding"' in refused.text
    asked = {"upload": upload, "do": "look", "encoding": "no-such"}
    again = client.post("/v/publish/dataset", data=asked)
    assert (again.status_code, 'value="no-such"' in again.text) == (400, True)
    shown = client.post("/v/publish/dataset", data=asked | {"encoding": "windows-1252"})
    assert shown.status_code == 200, shown.text
    assert "Zürich" in html.unescape(shown.text)


def test_hostile_names_and_cells_are_text(visitor):
    row = '"<script>alert(1)</script>","\x1b[2J"\n'
    shown = send(visitor("dora"), "<b>.csv", f'"<i>a","b"\n{row}'.encode()).text
    assert "<script>alert" not in shown
    assert "<i>a" not in shown
    assert "&lt;i&gt;a" in shown


def test_the_file_of_somebody_else_is_not_published(visitor):
    shown = send(visitor("emil")).text
    upload = re.search(r'name="upload" value="([^"]+)"', shown)[1]
    answer = visitor("fred").post("/v/publish/dataset", data={"upload": upload, "do": "publish"})
    assert answer.status_code == 403


@pytest.mark.parametrize("upload", ["", "nonsense", "e30="])
def test_a_form_without_its_file_is_refused(visitor, upload):
    answer = visitor("gina").post("/v/publish/dataset", data={"upload": upload, "do": "publish"})
    assert answer.status_code == 400
    assert "Publish a file" in answer.text


def test_a_post_that_takes_long_says_where_to_look(node, visitor):
    client = visitor("hans")
    upload = re.search(r'name="upload" value="([^"]+)"', send(client).text)[1]
    answer = client.post(
        "/v/publish/dataset", data={"upload": upload, "columns": "2", "do": "publish"}
    )
    assert answer.status_code == 202
    assert '<a href="/hans/a">' in answer.text
