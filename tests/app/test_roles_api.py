"""Private and public datasets, seven kinds of callers, every surface: who may do what."""

from __future__ import annotations

import os

import pytest
from service import create_token, described, ensure_account, serving, ten_rows
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import Reach, Role, Visibility

CALLERS = ("anonymous", "stranger", "reader", "editor", "maintainer", "owner", "admin")
RANK = {name: rank for rank, name in enumerate(CALLERS)}
EVENT = "kind: MetadataEvent\nversion: 1\ncontent: {kind: SetInfo, description: changed}\n"
OBJECT = b"an object somebody puts"


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("roles"), tenancy="multi", ingest_wait_s=0) as service:
        accounts = service.node.stores.accounts
        for name in CALLERS[1:]:
            ensure_account(accounts, name, os.urandom, is_admin=name == "admin")
        yield service


@pytest.fixture(scope="module")
def tokens(node):
    return {"anonymous": None, **{name: node.token(name) for name in CALLERS[1:]}}


@pytest.fixture(scope="module")
def datasets(node):
    """A public and a private dataset of `owner`; three accounts have a role with each."""
    made = {}
    for visibility in Visibility:
        name = visibility.lower()
        made[name] = node.keep(ten_rows(), f"owner/{name}", visibility)
        for role in Role:
            account = node.node.stores.accounts.find_account(role.lower())
            node.node.stores.roles.put(made[name].id, account.id, role)
    return made


def at_least(caller, least):
    return RANK[caller] >= RANK[least]


def expected(caller, dataset, least, done):
    """The status that answers: done, forbidden to those who may read, else hidden."""
    if at_least(caller, least):
        return done
    return 403 if dataset == "public" or at_least(caller, "reader") else 404


everybody = pytest.mark.parametrize("caller", CALLERS)
everything = pytest.mark.parametrize("dataset", ["public", "private"])


def ask(node, token, method, path, **more):
    with node.http(token) as client:
        return client.request(method, path, **more)


def upgrade(node, token, path):
    headers = {"x-odf-smtp-version": "1"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    url = node.url.replace("http", "ws", 1) + path
    try:
        with connect(url, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@everybody
@everything
def test_reading(node, tokens, datasets, caller, dataset):
    token = tokens[caller]
    readable = dataset == "public" or at_least(caller, "reader")
    entry = datasets[dataset]
    head = node.node.stores.refs.head(entry.id)
    for path in ("/refs/head", f"/blocks/{head}", "/tail", "/metadata", ""):
        answer = ask(node, token, "GET", f"/owner/{dataset}{path}")
        assert answer.status_code == (200 if readable else 404), path
    assert upgrade(node, token, f"/owner/{dataset}/pull") == (101 if readable else 404)
    by_id = ask(node, token, "GET", f"/datasets/{entry.id}")
    assert by_id.status_code == (200 if readable else 404)
    listed = ask(node, token, "GET", "/datasets?account=owner").json()["datasets"]
    assert (f"owner/{dataset}" in [item["alias"] for item in listed]) is readable
    if readable:
        shown = ask(node, token, "GET", f"/owner/{dataset}").json()
        assert shown["visibility"] == dataset.capitalize()


@everybody
@everything
def test_writing(node, tokens, datasets, caller, dataset):
    token, path = tokens[caller], f"/owner/{dataset}"
    headers = {"content-type": "application/pdf"}
    posted = ask(node, token, "POST", path + "/ingest", content=b"", headers=headers)
    assert posted.status_code == expected(caller, dataset, "editor", 415)
    put = ask(node, token, "PUT", f"{path}/data/{Multihash.of(OBJECT)}", content=OBJECT)
    assert put.status_code == expected(caller, dataset, "editor", 200)
    event = ask(node, token, "POST", path + "/metadata", content=EVENT)
    assert event.status_code == expected(caller, dataset, "editor", 200)
    pushed = expected(caller, dataset, "editor", 101)
    if pushed == 404:  # hidden: as a missing dataset
        pushed = upgrade(node, token, "/owner/missing/push")
        assert pushed in (401, 403)
    assert upgrade(node, token, path + "/push") == pushed
    if put.status_code in (403, 404):
        assert put.content == b""
    for answer in (posted, event):
        if answer.status_code in (403, 404):
            assert answer.json()["status"] == answer.status_code


@everybody
@everything
def test_changing_visibility(node, tokens, datasets, caller, dataset):
    path, wanted = f"/owner/{dataset}/visibility", {"visibility": dataset}
    answer = ask(node, tokens[caller], "PUT", path, json=wanted)
    assert answer.status_code == expected(caller, dataset, "maintainer", 200)
    if answer.status_code == 200:
        assert answer.json() == {"visibility": dataset.capitalize()}


@everybody
@everything
def test_seeing_and_changing_roles(node, tokens, datasets, caller, dataset):
    token, path = tokens[caller], f"/owner/{dataset}/access"
    done = expected(caller, dataset, "maintainer", 200)
    shown = ask(node, token, "GET", path)
    assert shown.status_code == done
    assert ask(node, token, "GET", path + "/reader").status_code == (
        200 if caller == "reader" else done
    )
    guest = ensure_account(node.node.stores.accounts, "guest", os.urandom)
    given = ask(node, token, "PUT", path + "/guest", json={"role": "Reader"})
    assert given.status_code == done
    roles = node.node.stores.roles.of_dataset(datasets[dataset].id)
    assert (guest.id in roles) is (done == 200)
    taken = ask(node, token, "DELETE", path + "/guest")
    assert taken.status_code == (204 if done == 200 else done)
    assert guest.id not in node.node.stores.roles.of_dataset(datasets[dataset].id)
    if done == 200:
        assert shown.json()["owner"] == "owner"
        assert [item["role"] for item in shown.json()["roles"]] == [
            "Editor",
            "Maintainer",
            "Reader",
        ]


def test_a_visibility_that_changed_counts_at_once(node, tokens):
    node.keep(ten_rows(), "owner/changing", Visibility.PRIVATE)
    for wanted, status in (("Public", 200), ("private", 404), ("PUBLIC", 200)):
        path = "/owner/changing"
        changed = ask(
            node, tokens["owner"], "PUT", path + "/visibility", json={"visibility": wanted}
        )
        assert changed.status_code == 200
        assert ask(node, None, "GET", path + "/refs/head").status_code == status
        assert ask(node, None, "GET", path).status_code == status


def test_a_role_that_was_given_replaced_or_taken_counts_at_once(node, tokens):
    node.keep(ten_rows(), "owner/shared", Visibility.PRIVATE)
    path, one = "/owner/shared", "/owner/shared/access/Stranger"
    stranger, owner = tokens["stranger"], tokens["owner"]

    def may():
        read = ask(node, stranger, "GET", path + "/refs/head").status_code
        headers = {"content-type": "application/pdf"}
        write = ask(node, stranger, "POST", path + "/ingest", headers=headers).status_code
        return read, write, ask(node, stranger, "GET", path + "/access").status_code

    assert may() == (404, 404, 404)
    for role, allowed in (
        ("reader", (200, 403, 403)),
        ("Maintainer", (200, 415, 200)),
        ("EDITOR", (200, 415, 403)),
    ):
        given = ask(node, owner, "PUT", one, json={"role": role})
        assert given.json()["role"] == role.capitalize()
        assert may() == allowed
        own = ask(node, stranger, "GET", one).json()
        assert (own["accountName"], own["role"]) == ("stranger", role.capitalize())
    for _ in range(2):
        assert ask(node, owner, "DELETE", one).status_code == 204
    assert may() == (404, 404, 404)
    assert ask(node, owner, "GET", one).json()["role"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "access/nobody", b'{"role":"Reader"}', 404),
        ("DELETE", "access/nobody", b"", 404),
        ("GET", "access/nobody", b"", 404),
        ("PUT", "access/reader", b'{"role":"Owner"}', 400),
        ("PUT", "access/reader", b'{"role":5}', 400),
        ("PUT", "access/reader", b"nonsense", 400),
        ("PUT", "access/reader", b"[]", 400),
        ("PUT", "access/owner", b'{"role":"Reader"}', 400),
        ("PUT", "access/reader", b'{"role":"' + b"x" * 5000 + b'"}', 413),
        ("PUT", "visibility", b'{"visibility":"hidden"}', 400),
        ("PUT", "visibility", b"", 400),
    ],
)
def test_what_makes_no_sense_is_refused(node, tokens, datasets, method, path, body, status):
    answer = ask(node, tokens["owner"], method, f"/owner/public/{path}", content=body)
    assert answer.status_code == status
    assert answer.json()["message"]


def test_a_reader_of_a_public_dataset_knows_only_their_own_role(node, tokens, datasets):
    assert ask(node, tokens["stranger"], "GET", "/owner/public/access/reader").status_code == 403
    own = ask(node, tokens["stranger"], "GET", "/owner/public/access/stranger")
    assert (own.status_code, own.json()["role"]) == (200, None)


@pytest.mark.parametrize(
    ("reach", "here", "there"),
    [
        (Reach.NODE, 200, 200),
        (Reach.ACCOUNT, 200, 404),
        (Reach.DATASET, 404, 404),
    ],
)
def test_tokens_reach_no_further_than_they_were_made_for(
    node, tokens, datasets, reach, here, there
):
    accounts = node.node.stores.accounts
    owner = accounts.find_account("stranger")
    one = node.keep(ten_rows(), f"stranger/{reach}-one", Visibility.PRIVATE)
    node.keep(ten_rows(), f"stranger/{reach}-two", Visibility.PRIVATE)
    shared = node.keep(ten_rows(), f"owner/{reach}-shared", Visibility.PRIVATE)
    node.node.stores.roles.put(shared.id, owner.id, Role.READER)
    node.node.roles.forget(owner.id)
    only = one.id if reach is Reach.DATASET else None
    made = create_token(accounts, owner, os.urandom, node.node.clock(), reach=reach, dataset=only)
    for alias, status in ((one.alias, 200), (f"stranger/{reach}-two", here), (shared.alias, there)):
        assert ask(node, str(made), "GET", f"/{alias}/refs/head").status_code == status
    assert ask(node, str(made), "GET", "/owner/public/refs/head").status_code == 200
    manifest = (
        "kind: DatasetSnapshot\nversion: 1\n"
        f"content: {{name: {reach}-new, kind: Root, metadata: []}}\n"
    )
    created = ask(node, str(made), "POST", "/datasets", content=manifest)
    assert created.status_code == (403 if reach is Reach.DATASET else 201)


def test_roles_of_a_single_tenant_node_let_others_write(tmp_path):
    with serving(tmp_path) as service:
        chain = ten_rows().add(described())
        entry = service.keep(chain, "kamu/foo", Visibility.PRIVATE)
        token = service.token("helper")
        assert ask(service, token, "POST", "/foo/metadata", content=EVENT).status_code == 404
        owner = service.token("kamu")
        given = ask(service, owner, "PUT", "/foo/access/helper", json={"role": "Editor"})
        assert given.status_code == 200
        assert ask(service, token, "POST", "/foo/metadata", content=EVENT).status_code == 200
        assert service.node.stores.refs.head(entry.id) != chain.head
