"""What is published is read by the older generations of the library, which need a Python of their
own: `OLDER_KARTOTHEK` names the programs, apart by colons. What they write is in the vectors."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kartothek_published import A2, A, Growing, Publisher, by_city

from odf_storage.datasets.kartothek.definition import Mode, StateFormat
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore

PYTHONS = [each for each in os.environ.get("OLDER_KARTOTHEK", "").split(":") if each]
SCRIPT = Path(__file__).parents[2] / "support/older_library.py"
HOSTILE = ["a/b", "50%", "%2F", "x=y", " ", "'\"`", "Ελλάς", "東京", "", "..", "a\nb"]


@pytest.fixture(params=PYTHONS or [None], ids=lambda each: str(each)[-24:])
def older(request: pytest.FixtureRequest, store: FolderKeyedStore) -> Any:
    if request.param is None:
        pytest.skip("OLDER_KARTOTHEK names no Python with kartothek 3 or 5")

    def ask(*asked: dict[str, Any]) -> list[dict[str, Any]]:
        done = subprocess.run(
            [request.param, SCRIPT, store.root],
            input=json.dumps([{"uuid": "u", **each} for each in asked]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return ask


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("form", list(StateFormat))
def test_rows_filters_and_indices_are_those_of_our_reader(
    made: Growing,
    store: FolderKeyedStore,
    tmp_path: Path,
    older: Any,
    mode: Mode,
    form: StateFormat,
) -> None:
    refresh = Publisher(
        made, store, tmp_path, mode=mode, state_format=form, secondary_indices=("city", "pop")
    )
    for block in A2:
        made.add(block)
        refresh()
    rows = by_city(whole_table(open_table(store, "u")).to_pylist())
    cities = sorted({row[2] for row in rows})
    whole, *found = older(
        {"column": "city"}, *({"predicates": [[["city", "==", city]]]} for city in cities)
    )
    assert by_city(whole["rows"]) == rows
    for city, each in zip(cities, found, strict=True):
        assert by_city(each["rows"]) == [row for row in rows if row[2] == city]
    assert sorted(value for value, _ in whole["labels"]) == cities


def test_hostile_texts_are_folders_and_values_to_them_too(
    made: Growing, store: FolderKeyedStore, tmp_path: Path, older: Any
) -> None:
    made.add([(A, text, at) for at, text in enumerate(HOSTILE)])
    Publisher(made, store, tmp_path, mode=Mode.STATE, partition_on=("city",))()
    whole, *found = older({}, *({"predicates": [[["city", "==", text]]]} for text in HOSTILE))
    wanted = [(at, A, text, at) for at, text in enumerate(HOSTILE)]
    assert by_city(whole["rows"]) == wanted
    assert [by_city(each["rows"]) for each in found] == [[row] for row in wanted]
