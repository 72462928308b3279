"""`odf-node projection`: a dataset of a node as a Kartothek dataset, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kartothek_published import A2, Growing, by_city
from plateau_peer import Plateau

from odf_node.cli.main import main
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Growing]:
    stores = open_stores(StoreSettings(data=tmp_path / "data", durable=False))
    yield Growing(stores)
    stores.close()


def odf(*words: object) -> Result:
    return CliRunner().invoke(main, ["projection", *(str(word) for word in words)])


def test_a_dataset_is_published_and_kept_up_to_date(made: Growing, tmp_path: Path) -> None:
    where = ["--data", tmp_path / "data", "--store", (tmp_path / "shop").as_uri()]
    wanted = ["towns", "--mode", "state", "--index", "city,event_time", *where]
    for block in A2:
        made.add(block)
        assert odf("kartothek", *wanted).exit_code == 0
    uuid = made.entry.id.multibase
    rows = Plateau(tmp_path / "shop").read(uuid)
    assert [row[0] for row in by_city(rows)] == [2, 4, 5]
    said = json.loads(odf("kartothek", *wanted, "--json").stdout)
    assert (said["uuid"], said["publishedHead"]) == (uuid, made.head)
    assert (said["changed"], said["rows"]) == (False, 3)


def test_what_somebody_else_wrote_is_a_conflict(made: Growing, tmp_path: Path) -> None:
    made.add(A2[0])
    where = ["towns", "--uuid", "u", "--data", tmp_path / "data"]
    where += ["--store", (tmp_path / "shop").as_uri()]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/u.by-dataset-metadata.json").write_text("{}")
    assert odf("kartothek", *where).exit_code == 5
    assert odf("withdraw", *where).exit_code == 5
    assert odf("kartothek", *where, "--force").stdout.startswith("published u: 3 rows")
    assert odf("withdraw", *where).exit_code == 0
    assert list((tmp_path / "shop").iterdir()) == []


def test_values_of_columns_become_folders(made: Growing, tmp_path: Path) -> None:
    for block in A2:
        made.add(block)
    where = ["towns", "--uuid", "u", "--data", tmp_path / "data"]
    where += ["--store", (tmp_path / "shop").as_uri()]
    assert odf("kartothek", *where, "--partition-on", "city", "--index", "pop").exit_code == 0
    folders = {path.name for path in (tmp_path / "shop/u/table").iterdir() if path.is_dir()}
    assert folders == {"city=a", "city=b", "city=c", "city=d"}
    rows = Plateau(tmp_path / "shop").read("u", [[("city", "==", "b")]])
    assert [row[0] for row in by_city(rows)] == [1, 3, 4]


def test_a_definition_is_checked_as_by_the_node(made: Growing, tmp_path: Path) -> None:
    made.add(A2[0])
    where = ["towns", "--data", tmp_path / "data", "--store", (tmp_path / "shop").as_uri()]
    for option, value, said in (
        ("--uuid", "a.b", "letters"),
        ("--partition-on", "nope", "nope"),
        ("--grace", "soon", "soon"),
    ):
        answer = odf("kartothek", *where, option, value)
        assert answer.exit_code != 0
        assert said in answer.output
    assert not (tmp_path / "shop").exists()
