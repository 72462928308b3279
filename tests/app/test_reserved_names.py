"""Names that the node's own addresses begin with are nobody's: one list, held to what is served."""

from __future__ import annotations

import os

import pytest
from chain_maker import long_chain, some_id
from raw_peer import talking
from refusals import refusing
from service import seeded, serving
from throwaway import throwaway_stores
from websockets.exceptions import InvalidStatus

from odf_node.service.accounts.accounts import create_account, ensure_account
from odf_node.service.applications.pages import OWN
from odf_node.service.http.addresses import contract
from odf_node.service.main import PAGE_OF_THE_API, PARTS
from odf_node.service.setting_groups.words import Tenancy
from odf_protocol.identity import DatasetAlias, MalformedName, Name
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.node.naming import RESERVED
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.stores.ports.values import DatasetEntry, Visibility

MANIFEST = "kind: DatasetSnapshot\nversion: 1\ncontent: {{name: {}, kind: Root, metadata: []}}\n"


@pytest.fixture(scope="module", params=list(Tenancy))
def node(request, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("names"), tenancy=request.param.value) as service:
        yield service


def test_the_list_holds_every_first_word_the_node_serves(node):
    served = {route.path for part in PARTS for route in part.router.routes}
    served |= {*contract(node.node.settings.tenancy)["paths"], *OWN, PAGE_OF_THE_API}
    words = {path.split("/")[1] for path in served}
    own = {word for word in words if word and not word.startswith("{")}
    assert own <= RESERVED
    assert {word.lower() for word in RESERVED} == RESERVED
    assert not [word for word in RESERVED if not _is_name(word)]


def _is_name(word):
    try:
        return bool(Name(word))
    except MalformedName:
        return False


@pytest.mark.parametrize("name", ["docs", "Jobs", "openapi.json", "robots.txt", "events"])
def test_no_account_is_called_so(node, name):
    for make in (create_account, ensure_account):
        with refusing("ReservedName"):
            make(node.node.stores.accounts, name, os.urandom)


@pytest.mark.parametrize("name", ["docs", "Datasets", "v", "openapi.json", "delta-sharing"])
def test_no_dataset_of_the_single_tenant_is_called_so(node, name):
    """Where addresses begin with an account, its datasets may be."""
    single = node.node.settings.tenancy is Tenancy.SINGLE
    token = node.token("kamu" if single else "alice")
    path = f"/{name}/push" if single else f"/alice/{name}/push"
    with node.http(token) as http:
        made = http.post("/datasets", content=MANIFEST.format(name))
        if single:
            assert (made.status_code, made.json()["name"]) == (400, name)
            with pytest.raises(InvalidStatus) as refused, talking(node, path, token):
                pass
            assert refused.value.response.status_code == 400
            mirror = f"kind: DatasetMirror\nversion: 1\ncontent: {{name: {name}, remote: 'http://x.y/z'}}"
            assert http.post("/datasets", content=mirror).json()["name"] == name
        else:
            assert made.status_code == 201
        http.post("/datasets", content=MANIFEST.format(f"plain-{len(name)}")).raise_for_status()
        at = f"/plain-{len(name)}/name" if single else f"/alice/plain-{len(name)}/name"
        renamed = http.put(at, json={"name": name})
        assert renamed.status_code == (400 if single else 409)


def test_old_datasets_of_such_names_are_named_by_fsck_and_at_the_start(tmp_path, caplog):
    stores = throwaway_stores()
    made = DatasetEntry(
        some_id(), DatasetAlias.parse("kamu/docs"), DatasetKind.Root, Visibility.PUBLIC, seeded_at()
    )
    stores.create_dataset(made, long_chain(made.id, 1))
    notes = check_stores(stores, FsckOptions()).notes
    assert [(note.dataset, note.reason) for note in notes] == [("kamu/docs", "ReservedName")]
    for _ in range(2):
        with serving(tmp_path) as service:
            if service.node.stores.registry.page() == []:
                service.keep(seeded(), "kamu/Docs")
    assert "the name of the dataset Docs is reserved" in caplog.text


def seeded_at():
    return seeded().blocks[0].block.system_time
