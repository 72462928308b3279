"""What the real library writes is ingested, from a folder and from a bucket, here and on Spark."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from backends import fresh_place
from buckets import log_in
from kartothek_vectors import in_any_order
from plateau_peer import Plateau, PlateauInBucket
from tests.workers.kartothek.polled import Polled, ledger, snapshot, state_of


def in_folder(tmp_path: Path, *_: Any) -> tuple[Plateau, str, dict[str, Any]]:
    folder = tmp_path / "store"
    return Plateau(folder), f"kartothek+{folder.as_uri()}/u", {}


def in_bucket(
    _: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Plateau, str, dict[str, Any]]:
    log_in(monkeypatch, request.getfixturevalue("s3"))
    place = fresh_place(request)
    return PlateauInBucket(place), f"kartothek+{place}/u", {"buckets": (place,)}


def frame(*rows: tuple[int, str, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["id", "place", "n"]).assign(
        day=date(2024, 1, 2), at=pd.Timestamp(2024, 1, 2, 3, 4, 5, 6000), odd=[[1]] * len(rows)
    )


def rows(*given: tuple[int, str, int]) -> list[dict[str, Any]]:
    more = {"day": date(2024, 1, 2), "at": datetime(2024, 1, 2, 3, 4, 5, 6000), "odd": [1]}
    return [dict(zip(("id", "place", "n"), each, strict=True)) | more for each in given]


def standing(polled: Polled) -> list[str]:
    """Rows in any order. Times are in UTC; those of the library tell no zone."""
    found = state_of(polled)
    return in_any_order([{**row, "at": row["at"].replace(tzinfo=None)} for row in found])


@pytest.mark.parametrize("place", [in_folder, in_bucket])
def test_a_snapshot_follows_its_commits(tmp_path, request, monkeypatch, place):
    plateau, url, rules = place(tmp_path, request, monkeypatch)
    polled = Polled(tmp_path, url, snapshot("id"), **rules)
    follow(plateau, polled)


@pytest.mark.spark
@pytest.mark.parametrize("place", [in_folder, in_bucket])
def test_on_spark_a_snapshot_follows_its_commits(tmp_path, request, monkeypatch, spark, place):
    plateau, url, rules = place(tmp_path, request, monkeypatch)
    follow(plateau, Polled(tmp_path, url, snapshot("id"), spark=spark, **rules))


def follow(plateau: Plateau, polled: Polled) -> None:
    first = [(1, "a b", 1), (2, "ż=%", 2), (3, "c", 3)]
    plateau.write("u", [frame(*first)], partition_on=["place"], secondary_indices=["id"])
    receipt = polled()
    assert receipt.rows_added == 3
    assert receipt.ran is None or receipt.ran.splits == 1
    assert standing(polled) == in_any_order(rows(*first))
    plateau.update("u", [frame((2, "ż=%", 9), (4, "d", 4))], delete_scope=[{"place": "ż=%"}])
    plateau.update("u", [], delete_scope=[{"place": "c"}])
    receipt = polled()
    assert (receipt.rows_added, receipt.rows_corrected, receipt.rows_retracted) == (1, 1, 1)
    assert standing(polled) == in_any_order(rows((1, "a b", 1), (2, "ż=%", 9), (4, "d", 4)))
    plateau.collect("u")
    assert polled().outcome == "up-to-date"


def test_files_that_it_rewrites_with_equal_rows_give_a_block_without_rows(tmp_path):
    plateau, url, _ = in_folder(tmp_path)
    plateau.write("u", [frame((1, "a", 1))], partition_on=["place"])
    polled = Polled(tmp_path, url, snapshot("id"))
    polled()
    plateau.update("u", [frame((1, "a", 1))], delete_scope=[{"place": "a"}])
    before, state = polled.blocks, polled.dataset.state().last_source_state
    assert polled().rows_added == 0
    assert polled.blocks == before + 1
    assert polled.dataset.state().last_source_state != state


def test_a_ledger_reads_what_it_appends(tmp_path):
    plateau, url, _ = in_folder(tmp_path)
    polled = Polled(tmp_path, url, ledger("id"))
    for at in range(3):
        if at:
            plateau.update("u", [frame((at, "a", at))])
        else:
            plateau.write("u", [frame((at, "a", at))], partition_on=["place"])
        assert polled().rows_read == 1
    assert standing(polled) == in_any_order(rows(*((at, "a", at) for at in range(3))))
