"""Slices that a query opens, over HTTP: by what reads have learned, and by the node's own index."""

from __future__ import annotations

from typing import Any

import pytest
from kartothek_published import A, Growing
from service import Service, serving

from odf_storage.datasets.kartothek.index_place import index_store
from odf_storage.datasets.kartothek.own_index import refresh_own_index
from odf_storage.stores.objects.layout import dataset_folder


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("slices")) as service:
        yield service


def grown(service: Service, name: str, count: int = 40) -> Growing:
    """Slices between Aachen and Zwolle, of which two hold Oslo."""
    made = Growing(service.node.stores, f"kamu/{name}")
    for number in range(count):
        rows = [(A, "Aachen", number), (A, "Zwolle", None)]
        made.add([*rows, (A, "Oslo", number)] if number in (3, 17) else rows)
    return made


def asked(service: Service, query: str, **more: Any) -> tuple[list[Any], str]:
    with service.http(service.token()) as client:
        answer = client.post("/query", json={"query": query, "limit": 1000, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["output"]["data"], answer.headers["odf-slices"]


def test_a_query_uses_the_index_of_the_node(service: Service) -> None:
    made = grown(service, "indexed")
    oslo = "select pop from indexed where city = 'Oslo' order by pop"
    before = asked(service, oslo)
    assert before == ([{"pop": 3}, {"pop": 17}], "40/40")
    refresh_own_index(made.dataset, made.stores.projections, ["city"])
    assert asked(service, oslo) == (before[0], "2/40")
    assert asked(service, "select pop from indexed where city in ('Paris', 'x')") == ([], "0/40")
    both = "select count(*) as n from indexed where city = 'Oslo' or pop = 5"
    assert asked(service, both) == ([{"n": 3}], "40/40")
    assert asked(service, "select count(*) as n from indexed") == ([{"n": 82}], "0/40")

    made.add([(A, "Oslo", 99)])
    found, slices = asked(service, oslo)
    assert ([row["pop"] for row in found], slices) == ([3, 17, 99], "3/41")
    pin = {"id": str(made.entry.id), "alias": "indexed", "blockHash": str(made.blocks[10].hash)}
    assert asked(service, oslo, datasets=[pin]) == ([{"pop": 3}], "9/9")

    store = index_store(made.stores.projections, made.entry.id)
    for key in [each.key for each in store.list(dataset_folder(made.entry.id))]:
        if "city" in key:
            store.put(key, [b"PAR1 no file PAR1"])
    assert asked(service, oslo) == (found, "41/41")


def test_a_query_uses_what_reads_have_learned(service: Service) -> None:
    grown(service, "learned")
    query = "select count(*) as n from learned where pop >= 38"
    assert asked(service, query) == ([{"n": 2}], "40/40")
    with service.http(service.token()) as client:
        assert client.get("/learned/read", params={"filter": "pop:eq:1"}).status_code == 200
    assert asked(service, query) == ([{"n": 2}], "2/40")
    subquery = "select count(*) as n from learned where pop >= (select max(pop) from learned)"
    assert asked(service, subquery) == ([{"n": 1}], "40/40")


def test_rows_alone_say_how_many_slices_were_opened(service: Service) -> None:
    grown(service, "alone", 5)
    with service.http(service.token()) as client:
        query = {"query": 'select * from alone where "offset" < 2', "format": "csv"}
        assert client.get("/query", params=query).headers["odf-slices"] == "1/5"


def test_newest_rows_open_the_newest_slices(service: Service) -> None:
    made = grown(service, "newest", 5)
    newest = 'select pop from newest order by "offset" desc'
    assert asked(service, f"{newest} limit 3") == ([{"pop": p} for p in (None, 4, 3)], "2/5")
    assert asked(service, "select count(*) as n, count(1) as m from newest", skip=1) == ([], "0/5")
    assert asked(service, "select count(*) as n from newest") == ([{"n": 11}], "0/5")
    made.add([(A, "Oslo", 99)])
    assert asked(service, newest, skip=1, limit=1)[1] == "2/6"
    assert asked(service, "select count(*) as n from newest") == ([{"n": 12}], "0/6")


def test_a_damaged_slice_is_found_by_every_query_that_has_a_row_of_it(service: Service) -> None:
    made = grown(service, "rotten", 5)
    newest = {"query": 'select * from rotten order by "offset" desc limit 1'}
    with service.http(service.token()) as client:
        assert client.post("/query", json=newest).status_code == 200
        path = made.slice_path(made.parts[-1])
        path.write_bytes(path.read_bytes()[:-20] + bytes(20))
        assert client.post("/query", json=newest).status_code == 500
    assert asked(service, "select count(*) as n from rotten") == ([{"n": 11}], "0/5")
