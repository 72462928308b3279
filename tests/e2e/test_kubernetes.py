"""The chart on a Kubernetes: executors of a release do its batches, also while pods are lost.

`ODF_TEST_CHART_VALUES` names a file of values for the cluster that `kubectl` and `helm` reach: its
images, its bucket, and what its pods may connect to. The namespace `ODF_TEST_NAMESPACE` has the
Secret that the values name.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from nodes import odf

CHART = Path(__file__).parents[2] / "helm" / "odf-node"
VALUES = os.environ.get("ODF_TEST_CHART_VALUES", "")
NAMESPACE = os.environ.get("ODF_TEST_NAMESPACE", "odf-test")
LACKS = [
    *([] if VALUES else ["values for a Kubernetes (ODF_TEST_CHART_VALUES)"]),
    *(f"the program {name}" for name in ("helm", "kubectl") if shutil.which(name) is None),
]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(LACKS), reason=f"missing: {', '.join(LACKS)}"),
]
RELEASE = "trial"
PATIENCE_S = 300
MACHINES = 2
ROWS = 1_500_000
SIZES = {
    "node.replicas": 2,
    "worker.replicas": 2,
    "worker.executors.count": MACHINES,
    "worker.extraEnv.ODF_WORKER_MICRO_BATCH_BYTES": 0,
    "worker.extraEnv.ODF_WORKER_SPARK_EXECUTOR_WAIT_S": 30,
}
ROOT = {
    "kind": "AddPushSource",
    "sourceName": "default",
    "read": {
        "kind": "Csv",
        "header": True,
        "schema": {
            "fields": [
                {"name": "id", "type": "Int64"},
                {"name": "at", "type": "Timestamp"},
                {"name": "text", "type": "String"},
            ]
        },
    },
    "merge": {"kind": "Ledger", "primaryKey": ["id"]},
}
VOCAB = {"kind": "SetVocab", "eventTimeColumn": "at"}
COUNT_PYTHON = (
    "import pathlib;"
    "words = [p.read_bytes().split(b'\\0') for p in pathlib.Path('/proc').glob('[0-9]*/cmdline')];"
    "print(sum(b'python' in each[0] and any(b'python_daemon' in word for word in each)"
    " for each in words))"
)


def run(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S + 60, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def kubectl(*words: str) -> str:
    return run("kubectl", "-n", NAMESPACE, *words)


def pods(component: str) -> list[str]:
    """Names of the pods that are running and not about to end."""
    labels = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}"
    columns = "jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{'\\n'}{end}"
    lines = kubectl("get", "pods", "-l", labels, "-o", columns).splitlines()
    return [words[0] for words in map(str.split, lines) if len(words) == 1]


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    """The service of a release, whose workers have a cluster of their own."""
    sizes = [word for name, value in SIZES.items() for word in ("--set", f"{name}={value}")]
    wait = ["--wait", "--timeout", f"{PATIENCE_S}s"]
    run("helm", "install", RELEASE, str(CHART), "-n", NAMESPACE, "-f", VALUES, *sizes, *wait)
    try:
        deployment = f"deploy/{RELEASE}-odf-node"
        made = ["odf-node", "token", "create", "--account", "kamu"]
        token = kubectl("exec", deployment, "--", *made).split()[-1]
        with forwarded(f"svc/{RELEASE}-odf-node") as url:
            headers = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
                yield client
    finally:
        run("helm", "uninstall", RELEASE, "-n", NAMESPACE, *wait)


@contextmanager
def forwarded(service: str) -> Iterator[str]:
    """Yield a URL of this machine that leads to the service."""
    words = ["kubectl", "-n", NAMESPACE, "port-forward", service, ":80"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert port is not None
            yield f"http://127.0.0.1:{port[1]}"
        finally:
            process.terminate()


def create(api: httpx.Client, name: str, kind: str, *events: dict[str, Any]) -> None:
    content = {"name": name, "kind": kind, "metadata": [*events, VOCAB]}
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": content}
    answer = api.post("/datasets", json=manifest)
    assert answer.status_code == 201, answer.text


def post(api: httpx.Client, name: str, begin: int = 0) -> dict[str, Any]:
    """Post a batch, and return its receipt."""
    lines = (f"{n},2024-01-01T00:00:{n % 60:02}Z,row {n}\n" for n in range(begin, begin + ROWS))
    headers = {"content-type": "text/csv", "prefer": f"wait={PATIENCE_S}"}
    body = ("id,at,text\n" + "".join(lines)).encode()
    answer = api.post(f"/kamu/{name}/ingest", content=body, headers=headers)
    assert answer.status_code in (200, 202), answer.text
    if answer.status_code == 200:
        return dict(answer.json())
    return dict(ended(api, answer.json()["job"])["result"])


def ended(api: httpx.Client, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while (found := api.get(f"/jobs/{job}").json())["status"] in ("waiting", "running"):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    assert found["status"] == "succeeded", found
    return dict(found)


def until_running(api: httpx.Client, name: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not any(
        job["status"] == "running" for job in api.get(f"/kamu/{name}/jobs").json()["jobs"]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_executors_of_the_release_do_its_batches_and_the_derivative_follows(
    api: httpx.Client, tmp_path: Path
) -> None:
    create(api, "readings", "Root", ROOT)
    query = {"kind": "Sql", "engine": "spark", "query": "select op, at, id * 2 as n from readings"}
    reads = [{"datasetRef": "kamu/readings", "alias": "readings"}]
    create(
        api, "doubles", "Derivative", {"kind": "SetTransform", "inputs": reads, "transform": query}
    )
    for begin, added in ((0, ROWS), (ROWS // 2, ROWS // 2)):
        receipt = post(api, "readings", begin)
        assert receipt["rowsAdded"] == added
        assert (receipt["ran"]["way"], receipt["ran"]["splits"] > 1) == ("spark", True)
    for pod in pods("executors"):
        assert int(kubectl("exec", pod, "--", "python", "-c", COUNT_PYTHON)) > 0
    deadline = time.monotonic() + PATIENCE_S
    while (found := api.get("/kamu/doubles").json())["records"] != ROWS * 3 // 2:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    token = api.headers["authorization"].split()[1]
    for name in ("readings", "doubles"):
        url = f"odf+{str(api.base_url).rstrip('/')}/kamu/{name}"
        odf("pull", url, tmp_path / name, "--token", token)
        odf("verify", tmp_path / name)


@pytest.mark.parametrize("component", ["executors", "worker", "spark-master"])
def test_a_batch_is_added_once_although_a_pod_is_lost(api: httpx.Client, component: str) -> None:
    name = f"lost-{component}"
    create(api, name, "Root", ROOT)
    with ThreadPoolExecutor() as pool:
        posted = pool.submit(post, api, name)
        until_running(api, name)
        time.sleep(1)
        assert not posted.done(), "the pod is lost in the midst of the batch"
        for pod in pods(component)[:1]:
            kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        receipt = posted.result()
    assert receipt["rowsAdded"] == ROWS
    assert api.get(f"/kamu/{name}").json()["records"] == ROWS
    assert post(api, name)["rowsAdded"] == 0  # a cluster that has lost a pod works on
    until_complete("executors", "worker", "spark-master")


def test_workers_get_executors_of_a_master_that_replaced_theirs(api: httpx.Client) -> None:
    create(api, "replaced", "Root", ROOT)
    assert post(api, "replaced")["rowsAdded"] == ROWS
    for component in ("spark-master", "executors"):
        kubectl("delete", "pod", *pods(component), "--wait")
        until_complete(component)
    assert post(api, "replaced", ROWS)["rowsAdded"] == ROWS


def until_complete(*components: str) -> None:
    for component in components:
        deployment = f"deploy/{RELEASE}-odf-{component}"
        kubectl("rollout", "status", deployment, f"--timeout={PATIENCE_S}s")
