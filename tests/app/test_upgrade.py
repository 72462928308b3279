"""A node that an earlier version wrote, as a folder that is kept: this version goes on with it.

`tests/vectors/nodes/schema-NNNN.tar.gz` was written by the code of the last commit with that
schema. Nobody writes it anew: each new schema gets a folder beside it.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from service import Service, serving

from odf_node.cli.main import main
from odf_node.service.accounts import login
from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.ports.values import Role, Visibility
from odf_storage.stores.sql.migrate import LATEST, current

KEPT = sorted((Path(__file__).parents[1] / "vectors" / "nodes").glob("schema-*.tar.gz"))
TOKEN = "ka_NSQTN1P0Q04B7TX6R61QG4MGBWMEZQM3DJ4F0CY7D40SFHCGQ1HWDVXJD8"
PASSWORD = "annas password"


@pytest.fixture(params=KEPT, ids=lambda kept: kept.name.partition(".")[0])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as kept:
        kept.extractall(tmp_path, filter="data")
    (found,) = tmp_path.iterdir()
    return found


def schema_of(data: Path) -> str | None:
    engine = sa.create_engine(f"sqlite:///{data / 'node.db'}")
    try:
        return current(engine)
    finally:
        engine.dispose()


def test_there_is_a_folder_of_an_earlier_version() -> None:
    assert KEPT


def test_people_tokens_rights_and_rows_are_what_they_were(data: Path) -> None:
    assert str(schema_of(data)) < LATEST
    with serving(data, tenancy="multi", password_work=2) as service:
        assert schema_of(data) == LATEST
        names = {one.name: one for one in service.node.stores.accounts.page()}
        assert [*names] == ["anna", "bob", "chief"]
        assert names["chief"].is_admin
        assert names["bob"].disabled_at is not None
        assert {one.sessions_end for one in names.values()} == {None}
        towns = service.node.stores.registry.get(DatasetRef.parse("anna/towns"))
        assert towns.visibility is Visibility.PRIVATE
        roles = service.node.stores.roles.of_dataset(towns.id)
        assert roles == {names["bob"].id: Role.READER}
        with service.http(TOKEN) as anna, service.http() as anybody:
            assert anna.get("/accounts/me").json()["accountName"] == "anna"
            assert len(anna.get("/anna/towns/tail").json()["data"]) == 6
            assert anybody.get("/anna/towns/tail").status_code == 404
        assert _session(service)


def _session(service: Service) -> str:
    its, given = service.node, json.dumps({"login": "anna", "password": PASSWORD})
    return login.log_in(its.passwords, its.sessions, "password", given, "127.0.0.1").token


def odf(data: Path, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words, "--data", str(data), "--json"])
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


def test_commands_bring_it_up_to_date_find_it_whole_and_delete_an_account(data: Path) -> None:
    assert odf(data, "db", "migrate") == {"migrated": True}
    assert odf(data, "fsck")["ok"]
    assert odf(data, "gc", "--dry-run")["removed"] == {}
    moved = odf(data, "account", "delete", "anna", "--datasets", "transfer", "--to", "chief")
    assert moved["names"] == ["anna/towns"]
    stores = open_stores(StoreSettings(data=data))
    try:
        assert stores.registry.find(DatasetRef.parse("chief/towns")) is not None
    finally:
        stores.close()
