"""The real library on what is published, in a folder, in a bucket and through a node: its table is
ours, its posting lists are what files hold, its filters are filters over its table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from backends import fresh_place
from buckets import log_in
from kartothek_published import A, C, D, Growing, Publisher, R, by_city
from plateau.io import eager
from plateau_http import PlateauOverHttp
from plateau_peer import Plateau, PlateauInBucket
from publishing import publishing
from service import serving

from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.keyed.folder import open_keyed_store

INDEXED = ("city", "pop", "op", "offset", "event_time")
Publish = Callable[[], None]
Opened = tuple[Growing, Plateau, Publish]


@pytest.fixture(params=["folder", "bucket", "node"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Mode], Opened]]:
    """A dataset, the library where it is published, and what brings it up to date."""
    with ExitStack() as ends:

        def served(mode: Mode) -> Opened:
            service = ends.enter_context(serving(tmp_path / "node"))
            ends.enter_context(publishing(service.node.stores))
            client = ends.enter_context(service.http(service.token()))
            asked = {"uuid": "u", "mode": str(mode), "secondaryIndices": INDEXED}
            path = "/towns/projections/kartothek"

            def publish() -> None:
                client.put(path, json=asked).raise_for_status()
                client.post(f"{path}/refresh").raise_for_status()

            return Growing(service.node.stores), PlateauOverHttp(client), publish

        def stored(mode: Mode) -> Opened:
            stores = open_stores(StoreSettings(data=tmp_path / "node", durable=False))
            ends.callback(stores.close)
            made = Growing(stores)
            if request.param == "folder":
                url, peer = (tmp_path / "shop").as_uri(), Plateau(tmp_path / "shop")
            else:
                log_in(monkeypatch, request.getfixturevalue("s3"))
                url = fresh_place(request)
                peer = PlateauInBucket(url)
            store = open_keyed_store(url, durable=False)
            config = {"mode": mode, "secondary_indices": INDEXED}
            return made, peer, Publisher(made, store, tmp_path, **config)

        yield served if request.param == "node" else stored


@pytest.mark.parametrize("mode", list(Mode))
def test_its_table_its_index_and_its_filters_are_right(
    place: Callable[[Mode], Opened], mode: Mode
) -> None:
    made, peer, publish = place(mode)
    chance, standing, every = random.Random(3), dict[str, int](), []
    for _ in range(4):
        rows = some_changes(chance, standing)
        every += [(len(every) + at, *row) for at, row in enumerate(rows)]
        made.add(rows)
        publish()
    whole = peer.read("u")
    found = by_city(whole)
    if mode is Mode.STATE:
        assert sorted((city, pop) for _, _, city, pop in found) == sorted(standing.items())
    else:
        assert found == every
    files = {
        part.label: part.data
        for part in eager.read_dataset_as_metapartitions("u", store=peer.store)
    }
    for column in INDEXED:
        held = {label: set(rows[column].dropna()) for label, rows in files.items()}
        listed = peer.index("u", column)
        assert len(listed) == len(set().union(*held.values()))
        if column == "event_time":  # no reader compares times that have a zone
            assert list(listed.values()) == [sorted(files)]
            continue
        for value, labels in listed.items():
            assert labels == sorted(label for label, values in held.items() if value in values)
            got = peer.read("u", [[(column, "==", value)]])
            wanted = [row for row in whole if row[column] == value]
            assert by_city(got) == by_city(wanted)


def some_changes(chance: random.Random, standing: dict[str, int]) -> list[tuple[int, str, int]]:
    """A random commit, after which `standing` is the state."""
    rows: list[tuple[int, str, int]] = []
    for city in chance.sample(["a", "b/ü", "c%", "", "e"], 3):
        if city not in standing:
            standing[city] = chance.choice([1, 2, 2**40])
            rows.append((A, city, standing[city]))
        elif chance.random() < 0.4:
            rows.append((R, city, standing.pop(city)))
        else:
            before, standing[city] = standing[city], chance.randint(3, 9)
            rows += [(C, city, before), (D, city, standing[city])]
    return rows
