"""A process killed at every single step of everything that writes; `crash_points.py` says how.

Both diagonals of {SQLite, PostgreSQL} and {local files, S3}; `make torture` has the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from buckets import fresh_location, log_in
from chain_maker import entry
from crash_server import CrashServer, crash_server
from crash_work import settings_of
from judge import check_all, check_dataset, check_nothing_left
from scenarios import IN_A_BUCKET, SCENARIOS, Scenario
from upkeep_parts import TOMORROW

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage

MAX_STEPS = 400
BACKENDS = {
    "sqlite, files": (False, False, 1),
    "postgres, files": (True, False, 2),
    "postgres, bucket": (True, True, 6),
}
"""PostgreSQL? A bucket? And every how manieth step, as requests take their time."""
if os.environ.get("ODF_TORTURE"):
    BACKENDS = {
        f"{database}, {objects}": (database == "postgres", objects == "bucket", 1)
        for database in ("sqlite", "postgres")
        for objects in ("files", "bucket")
    }


@dataclass(frozen=True)
class Place:
    """Stores to crash in: how a child opens them, and opened for the judge."""

    request: dict[str, Any]
    stores: Stores
    server: CrashServer
    stride: int


@pytest.fixture(scope="module", params=BACKENDS)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    in_postgres, in_bucket, stride = BACKENDS[request.param]
    where: dict[str, Any] = {"data": str(tmp_path_factory.mktemp("crashes"))}
    with pytest.MonkeyPatch.context() as patch:
        if in_postgres:
            where["database_url"] = request.getfixturevalue("new_postgres_url")()
        if in_bucket:
            log_in(patch, request.getfixturevalue("s3"))
            place = fresh_location(request.getfixturevalue("s3_bucket_url"))
            where["objects_url"] = f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")
        stores = open_stores(settings_of(where))
        with crash_server() as server:
            yield Place(where, stores, server, stride)
        stores.close()


def crash_everywhere(place: Place, name: str, scenario: Scenario) -> int:
    """Kill at one step after the other until the work gets through; how many died."""
    prefix = "".join(letter for letter in name if letter.isalpha())
    stride = place.stride * (1 if os.environ.get("ODF_TORTURE") else scenario.every)
    steps = range(1 + len(name) % stride, MAX_STEPS, stride)
    for killed, at in enumerate(steps):
        alias = f"kamu/{prefix}-{at}"
        scenario.before(place.stores, alias)
        crash = place.server.run(scenario=name, alias=alias, at=at, stores=place.request)
        assert crash.trouble is None, crash.trouble
        context = f"{name}, killed before step {at}: {crash.steps[-1:]}"
        try:
            _repair(place.stores, alias)  # as a start does
            if not scenario.repairs:
                check_dataset(place.stores, alias, crash.said)
            if crash.killed:
                said = list(crash.said)
                scenario.after(place.stores, alias, said.append)
                check_dataset(place.stores, alias, said)
        except AssertionError as problem:
            raise AssertionError(f"{context}: {problem}") from problem
        if not crash.killed:
            return killed
    pytest.fail(f"{name} has more than {MAX_STEPS} steps")


def _repair(stores: Stores, alias: str) -> None:
    found = stores.registry.find(DatasetRef(id=entry(alias).id))
    if found is not None:
        stores.republish(found)


CRASHES: dict[str, int] = {}


@pytest.mark.parametrize("name", [*SCENARIOS, *IN_A_BUCKET])
def test_a_kill_at_any_step_loses_nothing_that_was_acknowledged(place: Place, name: str) -> None:
    if name in IN_A_BUCKET and "objects_url" not in place.request:
        pytest.skip("files have no upload URLs")
    scenario = {**SCENARIOS, **IN_A_BUCKET}[name]
    CRASHES[f"{name} {len(CRASHES)}"] = crash_everywhere(place, name, scenario)


def test_after_all_crashes_the_store_is_whole_and_garbage_can_be_collected(place: Place) -> None:
    check_all(place.stores)
    collect_garbage(place.stores, clock=TOMORROW)
    check_all(place.stores)
    check_nothing_left(place.stores)
    print(f"{sum(CRASHES.values())} kills so far")
