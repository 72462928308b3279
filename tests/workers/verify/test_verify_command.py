"""`odf-worker verify`: a dataset of a node, verified by Spark, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.workers.derivatives import add_rows, derivative, moment, node_of, root

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.verify.note import read_note
from odf_workers.jobs.transform.run import run_transform
from odf_workers.main import main
from odf_workers.program.commands import inputs_of

COPY = "select event_time, city, n * 10 as n from {}"


def made(folder: Path) -> None:
    """A root, a derivative of it, and one of both."""
    stores = open_stores(StoreSettings(data=folder, durable=False))
    source = root(stores, "cities")
    add_rows(stores, source, [("2024-01-01T00:00:00Z", "a", 1)] * 3, folder, at=10)
    bench = node_of(stores, folder)
    tens = derivative(stores, "tens", [source], COPY.format("cities"))
    top = derivative(stores, "top", [tens, source], COPY.format("tens"))
    for number, dataset in enumerate((tens, top)):
        run_transform(stores, dataset, TransformPayload(), bench, now=moment(100 + number))
    assert inputs_of(stores, top.id) == [source.id, tens.id]
    stores.close()


@pytest.mark.spark
def test_a_derivative_and_what_it_is_made_of_are_verified(tmp_path: Path) -> None:
    made(tmp_path)
    words = ["verify", "top", "--data", str(tmp_path), "--recursive", "--json"]
    command = [
        sys.executable,
        "-m",
        "odf_workers.main",
        *words,
    ]  # a Spark of its own, to be ended
    shown = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)["datasets"]
    assert [one["alias"] for one in found] == ["kamu/cities", "kamu/tens", "kamu/top"]
    assert [one["replayed"] for one in found] == [0, 1, 1]
    stores = open_stores(StoreSettings(data=tmp_path, durable=False))
    dataset = stores.dataset(DatasetRef.parse("kamu/top"))
    note = read_note(stores.objects, dataset.id)
    assert note is not None
    assert note.block == str(dataset.head())
    stores.close()


def test_a_dataset_that_is_not_here_is_told_before_anything_is_started(tmp_path: Path) -> None:
    for name in ("kamu/nothing", "nothing"):
        found = CliRunner().invoke(main, ["verify", name, "--data", str(tmp_path)])
        assert found.exit_code == 1
        assert "there is no dataset kamu/nothing" in found.output
