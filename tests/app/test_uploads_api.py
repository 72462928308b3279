"""Files sent ahead: announced, uploaded, fetched, ingested by their token, cleared away."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest
from refusals import refusing
from service import seeded, serving

from odf_node.service.auth.signed_urls import UploadToken
from odf_node.service.uploads.uploaded_files import clear_away
from odf_protocol.codec.manifests import load_event
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.sources import ReadStepCsv, ReadStepJson, ReadStepNdJson
from odf_storage.datasets.job_payloads import ingest_job
from odf_storage.stores.ports.values import (
    ObjectKey,
    ObjectKind,
    Reach,
    Scope,
    Succeeded,
    Visibility,
)

LIMIT = 100
NO_TOKEN = "No authentication token provided"
NOT_THE_FORM = "Expected 'file' to be the only part of upload form"
SIXTEEN = b"0123456789abcdef"
SOURCE = """
kind: MetadataEvent
version: 1
content:
  kind: AddPushSource
  sourceName: {name}
  read: {{kind: Csv, header: true, schema: {{fields: [{{name: city, type: String}}]}}}}
  merge: {{kind: Append}}
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    settings = {"tenancy": "multi", "max_upload_bytes": LIMIT, "max_uploads": 500}
    with serving(tmp_path_factory.mktemp("uploads"), **settings) as service:
        yield service


@pytest.fixture(scope="module")
def tokens(node):
    return {name: node.token(name) for name in ("alice", "bob")}


@pytest.fixture
def alice(node, tokens):
    with node.http(tokens["alice"]) as client:
        yield client


@pytest.fixture
def bob(node, tokens):
    with node.http(tokens["bob"]) as client:
        yield client


@pytest.fixture
def nobody(node):
    with node.http() as client:
        yield client


def prepare(client, length=16, name="population.json", kind="application/json"):
    params = {"fileName": name, "contentLength": length, "contentType": kind}
    return client.post("/platform/file/upload/prepare", params=params)


def send(client, prepared, content, part="file"):
    return client.post(prepared["uploadUrl"], files={part: ("any name", content)})


def uploaded(client, content=SIXTEEN, **more):
    prepared = prepare(client, len(content), **more).json()
    assert send(client, prepared, content).status_code == 200
    return prepared


def message(answer, status=400):
    assert answer.status_code == status
    return answer.json()["message"]


def claimed(token, **changes):
    """The same token with other claims: it is not signed."""
    claims = {**json.loads(base64.urlsafe_b64decode(token)), **changes}
    kept = {name: value for name, value in claims.items() if value is not None}
    return base64.urlsafe_b64encode(json.dumps(kept).encode()).decode()


def test_a_file_is_announced_and_uploaded(node, alice, tokens):
    prepared = prepare(alice).json()
    token = prepared["uploadToken"]
    assert prepared == {
        "uploadUrl": f"{node.url}/platform/file/upload/{token}",
        "method": "POST",
        "useMultipart": True,
        "headers": [["Authorization", f"Bearer {tokens['alice']}"]],
        "fields": [],
        "uploadToken": token,
    }
    claims = json.loads(base64.urlsafe_b64decode(token))
    owner = node.node.stores.accounts.find_account("alice").id
    assert bytes.fromhex(claims.pop("upload_id"))
    assert claims == {
        "file_name": "population.json",
        "owner_account_id": owner.removeprefix("did:odf:"),
        "content_length": 16,
        "content_type": "application/json",
    }
    for _ in range(2):
        answer = send(alice, prepared, SIXTEEN)
        assert (answer.status_code, answer.content) == (200, b"")


def test_uploading_takes_a_token(nobody, alice, node):
    url = prepare(alice).json()["uploadUrl"]
    assert message(prepare(nobody), 401) == NO_TOKEN
    assert message(nobody.post(url, files={"file": SIXTEEN}), 401) == NO_TOKEN
    mock = f"{node.url}/platform/file/upload/abc"
    assert message(nobody.post(mock, files={"file": SIXTEEN}), 401) == NO_TOKEN
    with node.http(node.token("alice", Scope.READ)) as reader:
        assert prepare(reader).status_code == 403


def test_a_foreign_upload_is_forbidden_whatever_the_token_claims(node, alice, bob):
    prepared = prepare(alice).json()
    assert send(bob, prepared, SIXTEEN).status_code == 403
    own = node.node.stores.accounts.find_account("bob").id.removeprefix("did:odf:")
    forged = claimed(prepared["uploadToken"], owner_account_id=own)
    assert send(bob, {"uploadUrl": f"/platform/file/upload/{forged}"}, SIXTEEN).status_code == 403


def test_what_is_too_large_is_refused_announced_or_not(alice):
    assert message(prepare(alice, LIMIT + 1)) == "Content too large"
    prepared = prepare(alice, LIMIT).json()
    assert message(send(alice, prepared, b"x" * 500)) == "Content too large"
    assert message(send(alice, prepared, b"x" * 200_000)) == "Content too large"
    large = claimed(prepared["uploadToken"], content_length=500)
    url = f"/platform/file/upload/{large}"
    assert message(send(alice, {"uploadUrl": url}, b"x" * 500)) == "Content too large"
    assert send(alice, prepared, b"x" * LIMIT).status_code == 200


def test_a_file_of_another_length_than_announced_is_refused(alice):
    answer = send(alice, prepare(alice, 9).json(), b"x" * 27)
    assert message(answer) == (
        "Actual content length 27 does not match the initially declared length 9"
    )


def test_anybody_who_knows_the_token_may_fetch_the_file(alice, bob, nobody):
    prepared = uploaded(alice, name="ü.json")
    for client in (alice, bob, nobody):
        answer = client.get(prepared["uploadUrl"])
        assert (answer.status_code, answer.content) == (200, SIXTEEN)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%BC.json"
    assert alice.head(prepared["uploadUrl"]).status_code == 200


def test_pages_are_never_served_as_pages(alice, nobody):
    prepared = uploaded(alice, b"<script>", name="a.html", kind="text/html")
    answer = nobody.get(prepared["uploadUrl"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_unknown_file_is_not_found(node, alice, nobody):
    awaited = prepare(alice).json()["uploadToken"]
    unknown = claimed(awaited, upload_id="0" * 32)
    bob = node.node.stores.accounts.find_account("bob").id.removeprefix("did:odf:")
    strange = claimed(uploaded(alice)["uploadToken"], owner_account_id=bob)
    for token in (awaited, unknown, strange):
        answer = nobody.get(f"/platform/file/upload/{token}")
        assert message(answer, 404) == "Uploaded file not found on the server"
    assert nobody.get("/platform/file/upload/nonsense").status_code == 400


@pytest.mark.parametrize(
    "more",
    [
        {"files": {"data": SIXTEEN}},
        {"files": [("file", SIXTEEN), ("file", SIXTEEN)]},
        {"files": {"file": SIXTEEN}, "data": {"other": "x"}},
        {"content": SIXTEEN},
        {"content": b"", "headers": {"content-type": "multipart/form-data; boundary=b"}},
        {"content": b"--b\r\n", "headers": {"content-type": "multipart/form-data; boundary=b"}},
        {
            "content": b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + SIXTEEN,
            "headers": {"content-type": "multipart/form-data; boundary=b"},
        },
        {
            "content": b"--b\r\nX: " + b"y" * 10_000,
            "headers": {"content-type": "multipart/form-data; boundary=b"},
        },
        {"content": b"x", "headers": {"content-type": "multipart/form-data"}},
        {
            "content": b"x",
            "headers": {"content-type": "multipart/form-data; boundary=" + "b" * 999},
        },
    ],
)
def test_a_form_holds_the_file_and_nothing_else(alice, more):
    assert message(alice.post(prepare(alice).json()["uploadUrl"], **more)) == NOT_THE_FORM


def test_another_file_under_the_same_token_is_refused(alice):
    prepared = uploaded(alice)
    assert send(alice, prepared, b"fedcba9876543210").status_code == 409
    assert alice.get(prepared["uploadUrl"]).content == SIXTEEN


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"fileName": "a"},
        {"fileName": "a", "contentLength": -1},
        {"fileName": "a", "contentLength": "x"},
        {"fileName": "", "contentLength": 1},
        {"fileName": "a\nb", "contentLength": 1},
        {"fileName": "a" * 256, "contentLength": 1},
    ],
)
def test_an_announcement_without_sense_is_refused(alice, params):
    assert alice.post("/platform/file/upload/prepare", params=params).status_code == 400


def test_uploads_of_an_account_are_bounded(tmp_path):
    with serving(tmp_path, max_uploads=1) as service, service.http(service.token()) as client:
        assert prepare(client).status_code == 200
        assert prepare(client).status_code == 429


@pytest.mark.parametrize("text", ["", "=", "é", "abc", "bnVsbA==", "e30=", "x" * 10_000])
def test_text_that_is_no_upload_token_is_refused(text):
    with refusing("InvalidUploadToken"):
        UploadToken.parse(text)


def test_a_token_is_read_with_its_padding_or_without():
    token = UploadToken(upload_id="1", file_name="ü", owner_account_id="fed01", content_length=3)
    assert UploadToken.parse(str(token)) == token
    assert UploadToken.parse(str(token).rstrip("=")) == token


def test_a_file_is_gone_when_its_time_is_over_though_nobody_cleared_it_away(
    node, alice, nobody, dataset
):
    kept, waiting, real = uploaded(alice), prepare(alice).json(), node.node.clock
    entry = dataset()
    object.__setattr__(node.node.file_uploads, "clock", lambda: Instant(real().ns + 86_401 * NANOS))
    try:
        assert nobody.get(kept["uploadUrl"]).status_code == 404
        over = "Uploaded file not found on the server"
        assert message(ingest(alice, entry, kept["uploadToken"]), 404) == over
        assert send(alice, waiting, SIXTEEN).status_code == 404
    finally:
        object.__setattr__(node.node.file_uploads, "clock", real)
    assert nobody.get(kept["uploadUrl"]).status_code == 200
    assert state(node, entry).push_sources == {}


def test_files_are_cleared_away_once_they_are_old(node, alice, nobody):
    kept, real = [uploaded(alice, b"same"), uploaded(alice, b"same")], node.node.clock
    owner = node.node.stores.accounts.find_account("alice").id
    folder = DatasetRef.parse(owner).id
    assert node.node.stores.objects.list(folder)
    assert clear_away(node.node.file_uploads) == 0
    object.__setattr__(node.node.file_uploads, "clock", lambda: Instant(real().ns + 86_401 * NANOS))
    assert clear_away(node.node.file_uploads) >= 2
    object.__setattr__(node.node.file_uploads, "clock", real)
    assert list(node.node.stores.objects.list(folder)) == []
    for prepared in kept:
        assert nobody.get(prepared["uploadUrl"]).status_code == 404
    assert nobody.get(uploaded(alice, b"same")["uploadUrl"]).content == b"same"


# --- ingest by token ------------------------------------------------------------------------


@contextmanager
def worker(service):
    """Finishes every ingest job well; yields their payloads and what was uploaded for them."""
    seen, stop, stores = [], threading.Event(), service.node.stores

    def work():
        while not stop.is_set():
            job = stores.jobs.claim("w", [ingest_job.KIND], lease=timedelta(seconds=30))
            if job is None:
                stop.wait(0.01)
                continue
            seen.append((ingest_job.payload_of(job.spec.payload), job.spec.body))
            stores.jobs.finish(job.id, "w", Succeeded({}))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def dataset(node, request):
    """A new dataset of alice; `sources` are its push sources."""
    made = []

    def make(*sources, visibility=Visibility.PUBLIC):
        chain = seeded()
        for name in sources:
            chain.add(load_event(SOURCE.format(name=name)))
        name = f"d{chain.id.multibase[6:20]}"
        entry = node.keep(chain, f"alice/{name}", visibility)
        made.append(entry)
        return entry

    return make


def ingest(client, entry, token, **params):
    path = f"/{entry.alias}/ingest"
    return client.post(path, params={"uploadToken": token, **params})


def state(node, entry):
    return node.node.stores.dataset(DatasetRef(id=entry.id)).state()


@pytest.mark.parametrize(
    ("name", "kind", "read"),
    [
        ("population.json", "application/json", ReadStepJson()),
        ("population.ndjson", "", ReadStepNdJson()),
        ("any", "Text/CSV; charset=utf-8", ReadStepCsv(header=True, infer_schema=True)),
        ("p.NDJSON", "application/octet-stream", ReadStepNdJson()),
    ],
)
def test_a_dataset_without_a_source_gets_one_for_the_file(node, alice, dataset, name, kind, read):
    entry = dataset()
    token = uploaded(alice, name=name, kind=kind)["uploadToken"]
    with worker(node) as seen:
        for _ in range(2):
            assert ingest(alice, entry, token).status_code == 200
    source = state(node, entry).push_sources["auto"]
    assert source.read == read
    assert type(source.merge).__name__ == "MergeStrategyAppend"
    assert [(payload.source_name, body) for payload, body in seen] == [
        ("auto", SIXTEEN),
        (None, SIXTEEN),
    ]
    assert state(node, entry).num_blocks == 2


def test_a_declared_source_takes_the_file_by_its_own_type(node, alice, dataset):
    entry = dataset("default")
    token = uploaded(alice)["uploadToken"]
    with worker(node) as seen:
        assert ingest(alice, entry, token).status_code == 200
    assert seen[0][0].media_type == "application/json"
    assert list(state(node, entry).push_sources) == ["default"]
    key = ObjectKey(entry.id, ObjectKind.UPLOAD, node.node.stores.refs.head(entry.id))
    assert node.node.stores.objects.stat(key) is None


def test_a_file_of_unknown_kind_goes_to_a_declared_source_only(node, alice, dataset):
    token = uploaded(alice, name="stuff", kind="")["uploadToken"]
    assert message(ingest(alice, dataset(), token), 415) == "Unsupported media type"
    with worker(node) as seen:
        assert ingest(alice, dataset("default"), token).status_code == 200
    assert seen[0][0].media_type is None
    shapes = uploaded(alice, name="a.shp", kind="")["uploadToken"]
    assert ingest(alice, dataset(), shapes).status_code == 415


def test_a_token_that_declares_another_length_is_refused(alice, dataset):
    token = claimed(uploaded(alice)["uploadToken"], content_length=15)
    assert message(ingest(alice, dataset(), token)) == (
        "Actual content length 16 does not match the initially declared length 15"
    )


def test_a_file_is_ingested_by_its_owner_only(node, alice, bob, dataset):
    token, entry = uploaded(bob)["uploadToken"], dataset()
    assert ingest(alice, entry, token).status_code == 403
    own = node.node.stores.accounts.find_account("alice").id.removeprefix("did:odf:")
    forged = claimed(token, owner_account_id=own)
    assert ingest(alice, entry, forged).status_code == 403
    assert state(node, entry).push_sources == {}


def test_a_file_that_never_came_is_not_found(alice, dataset):
    entry, token = dataset(), prepare(alice).json()["uploadToken"]
    for missing in (token, claimed(token, upload_id="0" * 32)):
        answer = ingest(alice, entry, missing)
        assert message(answer, 404) == "Uploaded file not found on the server"
    assert message(ingest(alice, entry, "nonsense")) == "Invalid upload token"


def test_other_refusals_of_ingest_stay_and_make_no_source(node, alice, bob, nobody, dataset):
    token, entry = uploaded(alice)["uploadToken"], dataset()
    several = dataset("s1", "s2")
    assert "Explicit source name" in message(ingest(alice, several, token))
    assert message(ingest(alice, entry, token, sourceName="x")) == "Source 'x' not found"
    assert ingest(alice, entry, token, dryRun="true").status_code == 400
    assert ingest(bob, entry, token).status_code == 403
    assert ingest(nobody, entry, token).status_code == 403
    hidden = dataset(visibility=Visibility.PRIVATE)
    assert ingest(bob, hidden, token).status_code == 404
    assert state(node, entry).push_sources == {}


def test_a_token_for_one_dataset_ingests_there_only(node, alice, dataset):
    here, there = dataset("default"), dataset("default")
    from service import create_token

    owner = node.node.stores.accounts.find_account("alice")
    lesser = create_token(
        node.node.stores.accounts,
        owner,
        node.node.random,
        node.node.clock(),
        reach=Reach.DATASET,
        dataset=here.id,
    )
    with node.http(str(lesser)) as client, worker(node):
        token = uploaded(client)["uploadToken"]
        assert ingest(client, here, token).status_code == 200
        assert ingest(client, there, token).status_code == 403
