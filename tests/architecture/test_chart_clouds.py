"""The chart with the values of three clouds, and what KEDA asks the database that it names."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from tests.architecture.test_chart import (
    CHART,
    KEDA,
    QUERIES,
    RENDER,
    named,
    objections,
    resources,
)
from tests.architecture.test_deployment import run
from tests.storage.conftest import new_database

from odf_protocol.identity import DatasetId
from odf_storage.datasets.job_payloads.query_job import KIND as QUERY_JOB
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.ports.values import JobSpec

CLOUDS = {path.stem: path for path in sorted((CHART / "clouds").glob("*.yaml"))}
OF_OTHERS = {"ScaledObject"}
"""Kinds that a cluster has from others than Kubernetes."""
GIVEN = {"publicUrl": "https://odf.example.org/"}


@pytest.fixture(scope="module")
def helmed() -> dict[str, dict[str, str]]:
    """Renderings by Helm itself, by the name of the cloud or of the variant."""
    variants = {name: GIVEN | yaml.safe_load(path.read_text()) for name, path in CLOUDS.items()}
    variants |= {"keda": KEDA, "queries": QUERIES}
    given = json.dumps({"good": [*variants.values()], "bad": []})
    done = run(sys.executable, "-c", RENDER, CHART, input=given)
    assert done.returncode == 0, done.stderr
    return dict(zip(variants, json.loads(done.stdout)["rendered"], strict=True))


def test_there_are_values_for_three_clouds() -> None:
    assert [*CLOUDS] == ["aks", "eks", "gke"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_the_values_of_a_cloud_render_is_what_kubernetes_takes(
    helmed: dict[str, dict[str, str]], cloud: str
) -> None:
    made = resources(helmed[cloud])
    assert objections([one for one in made if one["kind"] not in OF_OTHERS]) == []
    assert {"Deployment", "Service", "Ingress", "NetworkPolicy"} <= {one["kind"] for one in made}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_each_cloud_reaches_its_database_and_its_bucket(
    helmed: dict[str, dict[str, str]], cloud: str
) -> None:
    policy = named(helmed[cloud], "NetworkPolicy", "test-odf-node")["spec"]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert {5432, 443 if cloud == "eks" else 8333} <= ports


def asked(rendered: dict[str, str]) -> tuple[str, str]:
    """What KEDA asks: for the length of the queue, and for the age of its oldest job."""
    scaled = next(one for one in resources(rendered) if one["kind"] == "ScaledObject")
    length, age = (each["metadata"]["query"] for each in scaled["spec"]["triggers"])
    return length, age


def test_the_database_answers_what_keda_asks_of_it(
    helmed: dict[str, dict[str, str]], postgres_url: str, tmp_path: Path
) -> None:
    settings = StoreSettings(data=tmp_path, database_url=new_database(postgres_url))
    stores = open_stores(settings)

    def answers(variant: str) -> list[float]:
        with stores.engine.connect() as db:
            return [float(db.execute(sa.text(one)).scalar_one()) for one in asked(helmed[variant])]

    try:
        assert answers("keda") == answers("queries") == [0, 0]
        lock: dict[str, Any] = {}
        for kind in ("ingest", "ingest", QUERY_JOB):
            stores.jobs.submit(JobSpec(kind, DatasetId(bytes(32)), lock))
        assert stores.jobs.claim("w", ["ingest"], lease=timedelta(seconds=30)) is not None
        began = time.monotonic()
        (length, age), (others, _) = answers("keda"), answers("queries")
        assert (length, others) == (3, 2)
        assert age > 0
        while (answers("keda")[1] - age) < 0.01:  # it goes on as time does
            assert time.monotonic() < began + 60
    finally:
        stores.close()
