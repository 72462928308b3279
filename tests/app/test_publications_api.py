"""A dataset published as a service: defined, refreshed by itself, in conflict, withdrawn."""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner
from kartothek_published import A2, Growing, by_city
from plateau_peer import Plateau
from publishing import publishing, until
from servers import wait_until
from service import serving

from odf_node.cli.main import main
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.datasets.kartothek.own_index import own_index
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore
from odf_storage.stores.objects.layout import dataset_folder
from odf_storage.stores.ports.publications import PublishedDataset
from odf_storage.stores.ports.values import Scope

PATH = "/towns/projections/kartothek"
ROWS = [0, 1, 2, 3, 4, 5, 6]


@pytest.fixture
def shop(tmp_path):
    return FolderKeyedStore(tmp_path / "exports" / "shop")


@pytest.fixture
def service(tmp_path):
    (tmp_path / "exports").mkdir()
    allowed = ((tmp_path / "exports").as_uri(),)
    with (
        serving(tmp_path / "node", publish_to=allowed, poll_s=0.1) as service,
        publishing(service.node.stores, publish_to=allowed),
    ):
        yield service


@pytest.fixture
def made(service):
    return Growing(service.node.stores)


@pytest.fixture
def client(service, made):
    with service.http(service.token()) as client:
        yield client


def offsets(shop, uuid="shop") -> list[int]:
    return [row[0] for row in by_city(whole_table(open_table(shop, uuid)).to_pylist())]


def asked(shop, **more):
    return {"uuid": "shop", "store": shop.root.as_uri(), "secondaryIndices": ["city"], **more}


def test_a_published_dataset_follows_its_head_and_says_which_block_it_shows(client, made, shop):
    made.add(A2[0])
    answer = client.put(PATH, json=asked(shop))
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["status"], shown["publishedHead"]) == ("Fresh", made.head)
    assert (shown["partitions"], shown["rows"], shown["lastError"]) == (1, 3, None)
    assert shown["indices"]["city"]["values"] == 3
    assert offsets(shop) == [0, 1, 2]
    made.add(A2[1])
    made.add(A2[2])
    until(client, PATH, status="Fresh", publishedHead=made.head)
    assert offsets(shop) == ROWS
    assert [row[0] for row in by_city(Plateau(shop.root).read("shop"))] == ROWS
    own = partial(own_index, made.stores.projections, made.entry.id)
    wait_until(lambda: str(own().head) == made.head, "the index of the node")
    assert own().columns == {"city"}


def test_a_second_refresh_changes_nothing_and_keeps_what_is_known(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    receipt = client.post(f"{PATH}/refresh").json()
    assert (receipt["outcome"], receipt["head"]) == ("up-to-date", made.head)
    assert client.get(PATH).json()["indices"]["city"]["values"] == 3


def test_moves_within_an_interval_are_one_refresh(client, made, shop, service):
    made.add(A2[0])
    client.put(PATH, json=asked(shop, minInterval="1h"))
    made.add(A2[1])
    made.add(A2[2])
    row = service.node.stores.publications.find(made.entry.id)
    assert service.node.stores.publications.due(now=service.node.clock()) == []
    assert row.not_before.ns > service.node.clock().ns + 3_500 * 10**9
    shown = client.get(PATH).json()
    assert (shown["status"], shown["rows"]) == ("Stale", 3)
    assert client.post(f"{PATH}/refresh").json()["rows"] == 7
    assert client.get(PATH).json()["status"] == "Fresh"


def test_a_foreign_state_is_a_conflict_until_somebody_forces_it(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    key = "shop.by-dataset-metadata.json"
    shop.put(key, [shop.read(key, most=10**6).raw + b" "])
    made.add(A2[1])
    shown = until(client, PATH, status="Conflict")
    assert shown["lastError"]["error"] == "PublicationConflict"
    assert client.post(f"{PATH}/refresh").status_code == 409
    assert offsets(shop) == [0, 1, 2]
    assert client.post(f"{PATH}/refresh", params={"force": "true"}).status_code == 200
    assert client.get(PATH).json()["status"] == "Fresh"
    assert offsets(shop) == ROWS[:6]


def test_what_the_library_deleted_is_published_anew_and_the_dataset_is_whole(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    Plateau(shop.root).delete("shop")
    made.add(A2[1])
    until(client, PATH, status="Fresh", publishedHead=made.head)
    assert offsets(shop) == ROWS[:6]
    assert all(made.slice_path(part).is_file() for part in made.parts)


def test_a_place_with_a_dataset_of_others_is_refused_at_once(client, made, shop):
    shop.put("shop.by-dataset-metadata.json", [b"{}"])
    answer = client.put(PATH, json=asked(shop))
    assert answer.status_code == 409
    assert client.get(PATH).status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"secondaryIndices": ["town"]}, 400),
        ({"uuid": "a/b"}, 400),
        ({"mode": "other"}, 400),
        ({"grace": "soon"}, 400),
        ({"unknown": 1}, 400),
        ({"store": "file:///etc"}, 403),
        ({"store": "s3+http://127.0.0.1:1/bucket"}, 403),
        ({"store": "http://127.0.0.1/x"}, 403),
    ],
)
def test_what_cannot_be_published_is_refused(client, made, shop, change, status):
    made.add(A2[0])
    answer = client.put(PATH, json=asked(shop, **change))
    assert answer.status_code == status, answer.text
    assert client.get(PATH).status_code == 404


def test_no_store_outside_of_the_allowed_ones_is_written(client, made, shop, tmp_path):
    made.add(A2[0])
    (tmp_path / "exports" / "out").symlink_to(tmp_path)
    exports = (tmp_path / "exports").as_uri()
    for url in (f"{exports}/../x", f"{exports}/%2E%2E/x", f"{exports}/out/x", f"{exports}-x/y"):
        assert client.put(PATH, json=asked(shop, store=url)).status_code in (400, 403), url
    assert not (tmp_path / "x").exists()


def test_names_in_one_store_do_not_begin_with_each_other(client, made, shop, service):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    Growing(service.node.stores, "kamu/other").add(A2[0])
    other = "/other/projections/kartothek"
    for uuid in ("shop", "sho", "shop2"):
        assert client.put(other, json=asked(shop, uuid=uuid)).status_code == 409
    assert client.put(other, json=asked(shop, uuid="other")).status_code == 200


def test_a_publication_moves_only_after_it_was_withdrawn(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    assert client.put(PATH, json=asked(shop, uuid="else")).status_code == 409
    assert client.delete(PATH).status_code == 204
    assert list(shop.root.iterdir()) == []
    assert client.get(PATH).status_code == 404
    assert client.delete(PATH).status_code == 404
    assert own_index(made.stores.projections, made.entry.id) is None
    assert client.put(PATH, json=asked(shop, uuid="else")).status_code == 200
    assert offsets(shop, "else") == [0, 1, 2]


def test_a_changed_definition_is_published_at_once(client, made, shop):
    made.add(A2[0])
    made.add(A2[1])
    client.put(PATH, json=asked(shop))
    shown = client.put(PATH, json=asked(shop, mode="state", primaryKey=["city"])).json()
    assert (shown["mode"], shown["primaryKey"], shown["status"]) == ("state", ["city"], "Fresh")
    assert offsets(shop) == [0, 2, 4, 5]


def test_only_maintainers_publish_and_see_how(service, made, shop):
    with service.http(service.token("kamu", Scope.READ)) as reader:
        assert reader.put(PATH, json=asked(shop)).status_code in (401, 403)
        assert reader.get(PATH).status_code in (401, 403)
    with service.http() as nobody:
        assert nobody.put(PATH, json=asked(shop)).status_code in (401, 403, 404)
        assert nobody.delete(PATH).status_code in (401, 403, 404)
    assert not shop.root.exists()


def test_the_command_line_publishes_by_the_url_of_a_dataset(service, made):
    made.add(A2[0])
    url, token = f"{service.url}/towns", service.token()

    def odf(*words):
        more = ["--token", token, "--json"]
        done = CliRunner().invoke(main, ["projection", words[0], url, *words[1:], *more])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    said = odf("set", "--index", "city", "--mode", "state", "--primary-key", "city")
    assert (said["status"], said["mode"], said["rows"]) == ("Fresh", "state", 3)
    made.add(A2[1])
    assert odf("refresh")["head"] == made.head
    assert odf("show")["publishedHead"] == made.head
    assert odf("withdraw")["withdrawn"]
    assert service.node.stores.publications.find(made.entry.id) is None


def test_a_publication_goes_with_its_dataset(client, made, service):
    made.add(A2[0])
    client.put(PATH, json={})
    made.stores.forget_dataset(made.entry.id)
    assert service.node.stores.publications.find(made.entry.id) is None
    folder = dataset_folder(made.entry.id)
    assert list(made.stores.projections.list(folder)) == []


def test_a_dataset_whose_files_are_elsewhere_is_not_deleted_before_they_are(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    answer = client.delete("/towns")
    assert (answer.status_code, answer.json()["store"]) == (409, shop.root.as_uri())
    assert offsets(shop) == [0, 1, 2]
    assert client.delete(PATH).status_code == 204
    assert client.delete("/towns").status_code == 204
    assert not list(shop.list(""))


def test_a_publication_is_forgotten_with_its_files_left_where_they_are(client, made, shop):
    made.add(A2[0])
    client.put(PATH, json=asked(shop))
    assert client.delete(PATH, params={"leaveFiles": True}).status_code == 204
    assert client.get(PATH).status_code == 404
    assert own_index(made.stores.projections, made.entry.id) is None
    assert offsets(shop) == [0, 1, 2]
    made.add(A2[1])
    assert client.put(PATH, json=asked(shop)).json()["status"] == "Fresh"  # it knows its files
    assert offsets(shop) == [0, 1, 2, 3, 4, 5]
    assert client.delete(PATH, params={"leaveFiles": True}).status_code == 204
    assert client.delete("/towns").status_code == 204
    assert offsets(shop) == [0, 1, 2, 3, 4, 5]
    assert client.delete(PATH, params={"leaveFiles": True}).status_code == 404


def test_what_the_node_serves_itself_cannot_be_left_behind(client, made):
    made.add(A2[0])
    client.put(PATH, json={})
    answer = client.delete(PATH, params={"leaveFiles": True})
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (400, "NothingToLeave")


def test_no_publication_has_the_name_of_another_dataset_or_block(client, made, service, shop):
    """Readers of the gateway know datasets by these names."""
    made.add(A2[0])
    other = Growing(service.node.stores, "kamu/other")
    other.add(A2[0])
    entry = service.node.stores.registry.find(DatasetRef(alias=DatasetAlias.parse("kamu/other")))
    head = str(service.node.stores.refs.head(entry.id))
    own = client.get("/towns").json()["id"]
    for name in (dataset_folder(entry.id), str(entry.id), head):
        for more in ({}, {"store": shop.root.as_uri()}):
            answer = client.put(PATH, json={"uuid": name, **more})
            assert answer.status_code == 400, answer.text
    assert client.put(PATH, json={"uuid": own.rpartition(":")[2]}).status_code == 200


def test_names_that_a_node_of_many_serves_stand_below_their_account(tmp_path):
    with serving(tmp_path / "node", tenancy="multi") as service, publishing(service.node.stores):
        stores = service.node.stores
        old, new = Growing(stores, "bob.b/old"), Growing(stores, "bob.b/towns")
        for each in (old, new):
            each.add(A2[0])
        stores.publications.put(  # by an earlier version
            PublishedDataset(
                dataset=old.entry.id, uuid="old", store=None, definition={"uuid": "old"}
            )
        )
        with service.http(service.token("bob.b")) as bob:
            path = "/bob.b/towns/projections/kartothek"
            for name in ("towns", "alice+towns", "bob_b", "bob_b+", "bob_bx+towns"):
                refused = bob.put(path, json={"uuid": name})
                assert refused.status_code == 400, refused.text
                assert refused.json()["prefix"] == "bob_b+"
            assert bob.put(path, json={"uuid": "bob_b+towns"}).status_code == 200
            answer = bob.put("/bob.b/old/projections/kartothek", json={"uuid": "old"})
            assert answer.status_code == 200, answer.text  # it keeps its name
            for name in ("old", "bob_b+towns"):
                key = f"/platform/kartothek/{name}.by-dataset-metadata.json"
                assert bob.get(key).status_code == 200
