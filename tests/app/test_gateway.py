"""A node serves published datasets as a read-only store, and any block as a dataset."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from kartothek_published import A2, A, Growing, by_city, extend
from plateau_http import PlateauOverHttp
from publishing import publishing, until
from service import serving

from odf_storage.stores.objects.layout import dataset_folder
from odf_storage.stores.ports.values import Visibility

PATH = "/towns/projections/kartothek"
ROOT = "/platform/kartothek/"


@pytest.fixture
def service(tmp_path):
    with (
        serving(tmp_path / "node", poll_s=0.1) as service,
        publishing(service.node.stores),
    ):
        yield service


@pytest.fixture
def made(service):
    return Growing(service.node.stores)


@pytest.fixture
def client(service, made):
    with service.http(service.token()) as client:
        yield client


def offsets(rows) -> list[int]:
    return [row[0] for row in by_city(rows)]


def test_the_library_reads_a_served_dataset_and_its_index_over_http(client, made):
    for block in A2:
        made.add(block)
    shown = client.put(PATH, json={"secondaryIndices": ["city"]}).json()
    assert (shown["status"], shown["store"]) == ("Fresh", None)
    peer = PlateauOverHttp(client)
    assert offsets(peer.read(shown["uuid"])) == list(range(7))
    peer.files.asked.clear()
    assert offsets(peer.read(shown["uuid"], [[("city", "==", "b")]])) == [1, 3, 4]
    data = {path for method, path in peer.files.asked if "/table/b" in path}
    assert len(data) == 2
    assert peer.index(shown["uuid"], "city")["a"] == ["b00000002", "b00000004"]


def test_slices_are_served_and_not_stored_a_second_time(client, made):
    made.add(A2[0])
    uuid = client.put(PATH, json={}).json()["uuid"]
    answer = client.get(f"{ROOT}{uuid}/table/b00000002.parquet")
    assert answer.content == made.slice_path(made.parts[0]).read_bytes()
    assert answer.headers["etag"] == f'"{made.parts[0].physical_hash}"'
    stored = [info.size for info in made.stores.projections.list("") if "/table/b" in info.key]
    assert stored == [] or max(stored) < 100


def test_a_state_without_dead_rows_is_served_in_files_of_its_own(client, made):
    for block in A2:
        made.add(block)
    asked = {"uuid": "live", "mode": "state", "secondaryIndices": ["city"]}
    assert client.put(PATH, json=asked).json()["rows"] == 3
    peer = PlateauOverHttp(client)
    assert offsets(peer.read("live")) == [2, 4, 5]
    assert offsets(peer.read("live", [[("city", "==", "d")]])) == [5]


def test_the_dataset_as_of_a_block_stays_as_it_was(client, made):
    made.add(A2[0])
    made.add(A2[1])
    at = made.head
    peer = PlateauOverHttp(client)
    assert offsets(peer.read(at)) == list(range(6))
    made.add(A2[2])
    made.add([(A, "z", 1)])
    assert offsets(peer.read(at)) == list(range(6))
    assert offsets(peer.read(made.head)) == list(range(8))
    assert peer.read(str(made.blocks[1].hash)) == []
    answer = client.get(f"{ROOT}{at}.by-dataset-metadata.json")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.json()["metadata"]["odf.head"] == at


def test_files_from_before_a_column_have_it_in_a_dataset_as_of_a_block(service, client, made):
    made.add(A2[0])
    before = made.head
    extend(made)
    peer = PlateauOverHttp(client)
    for wanted, found in (([("mayor", "==", "Ada")], [3]), ([("city", "==", "b")], [1])):
        rows = peer.read(made.head, [wanted])
        assert offsets(rows) == found
        assert all(set(row) == {*made.table([]).column_names, "mayor"} for row in rows)
    assert offsets(peer.read(made.head)) == [0, 1, 2, 3]
    old = client.get(f"{ROOT}{made.head}/table/b00000002.parquet")
    assert "immutable" in old.headers["cache-control"]
    assert client.get(f"{ROOT}{made.head}/table/b00000002.parquet").content == old.content
    as_it_was = client.get(f"{ROOT}{before}/table/b00000002.parquet").content
    assert as_it_was == made.slice_path(made.parts[0]).read_bytes()
    folder = dataset_folder(made.entry.id)
    stored = [i.key for i in made.stores.projections.list(folder) if "/completed/" in i.key]
    assert len(stored) == 1
    made.stores.forget_dataset(made.entry.id)
    assert list(made.stores.projections.list(folder)) == []


def test_a_slice_that_is_too_large_is_not_written_anew(tmp_path):
    with serving(tmp_path / "node", gateway_rewrite_bytes=10) as service:
        made = Growing(service.node.stores)
        made.add(A2[0])
        extend(made)
        with service.http(service.token()) as client:
            answer = client.get(f"{ROOT}{made.head}/table/b00000002.parquet")
            assert answer.status_code == 413
            assert "more than 10 bytes are not" in answer.json()["detail"]
            assert client.get(f"{ROOT}{made.head}/table/b00000004.parquet").status_code == 200


def test_who_may_not_read_the_dataset_finds_no_key(service, client, made):
    made.add(A2[0])
    uuid = client.put(PATH, json={}).json()["uuid"]
    keys = [f"{uuid}.by-dataset-metadata.json", f"{made.head}.by-dataset-metadata.json"]
    keys.append(f"{uuid}/table/b00000002.parquet")
    service.node.stores.set_visibility(made.entry.id, Visibility.PUBLIC)
    with service.http() as nobody:
        assert [nobody.get(ROOT + key).status_code for key in keys] == [200] * 3
        service.node.stores.set_visibility(made.entry.id, Visibility.PRIVATE)
        assert [nobody.get(ROOT + key).status_code for key in keys] == [404] * 3
    assert [client.get(ROOT + key).status_code for key in keys] == [200] * 3
    missing = ["", "x", f"{uuid}/table/b9.parquet", f"{uuid}/../record.json", f"{uuid}/table",
               f"{'f1620' + '0' * 64}.by-dataset-metadata.json", "%25" * 40]  # fmt: skip
    assert [client.get(ROOT + key).status_code for key in missing] == [404] * len(missing)
    assert client.put(ROOT + keys[0]).status_code == 405


def test_ranges_and_tags_are_those_of_http(client, made):
    made.add(A2[0])
    uuid = client.put(PATH, json={}).json()["uuid"]
    url = f"{ROOT}{uuid}/table/b00000002.parquet"
    whole = client.get(url)
    size = len(whole.content)
    assert client.head(url).headers["content-length"] == str(size)
    part = client.get(url, headers={"range": "bytes=4-7"})
    assert (part.status_code, part.content) == (206, whole.content[4:8])
    assert part.headers["content-range"] == f"bytes 4-7/{size}"
    last = client.get(url, headers={"range": "bytes=-4"})
    assert last.content == b"PAR1"
    assert client.get(url, headers={"range": f"bytes={size}-"}).status_code == 416
    etag = whole.headers["etag"]
    assert client.get(url, headers={"if-none-match": etag}).status_code == 304


def test_keys_are_found_however_a_client_encodes_them(client, made):
    made.add(A2[0])
    uuid = client.put(PATH, json={"secondaryIndices": ["city"]}).json()["uuid"]
    key = json.loads(client.get(f"{ROOT}{uuid}.by-dataset-metadata.json").content)["indices"][
        "city"
    ]
    assert "%3A" in key
    raw = client.get(ROOT + quote(key, safe="/")).content
    assert raw[:4] == b"PAR1"
    for spelling in (key, quote(quote(key, safe="/"), safe="/"), key.replace("%3A", ":")):
        assert client.get(ROOT + spelling).content == raw


def test_a_reader_of_the_state_before_finds_its_files_after_a_refresh(client, made):
    made.add(A2[0])
    uuid = client.put(PATH, json={"mode": "state", "primaryKey": ["city"]}).json()["uuid"]
    state = client.get(f"{ROOT}{uuid}.by-dataset-metadata.json").json()
    made.add(A2[1])
    until(client, PATH, status="Fresh", publishedHead=made.head)
    for files in state["partitions"].values():
        answer = client.get(ROOT + files["files"]["table"])
        assert answer.content == made.slice_path(made.parts[0]).read_bytes()
    assert (
        "no-cache" in client.get(f"{ROOT}{uuid}.by-dataset-metadata.json").headers["cache-control"]
    )
