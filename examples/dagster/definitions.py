"""A dataset of a node as an asset of Dagster, made anew for each head: `dagster dev -f FILE`.

The sensor asks for the hash of the head, and asks for one run of each: the hash is the key of the
run, the version of the data, and the state that is read, so a run that is repeated reads the same
rows. Set ODF_DATASET, and ODF_NODE_TOKEN for a private dataset.
"""

import os
from pathlib import Path

import dagster as dg
import httpx

DATASET = os.environ.get("ODF_DATASET", "http://127.0.0.1:8080/cities")
TOKEN = os.environ.get("ODF_NODE_TOKEN")
FOLDER = Path(os.environ.get("ODF_FOLDER", "odf-files"))


class Pinned(dg.Config):
    """The state of the dataset: the hash of a block."""

    head: str


def asked(path: str, **parameters: str) -> httpx.Response:
    """The answer of the node; an error is raised, so that Dagster tries again."""
    headers = {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    url = f"{DATASET}/{path}"
    return httpx.get(url, params=parameters, headers=headers, timeout=60).raise_for_status()


@dg.asset
def cities(config: Pinned) -> dg.MaterializeResult:
    """The current rows as of a block, as a Parquet file that is named after it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{config.head}.parquet"
    file.write_bytes(asked("read", asAt=config.head, format="parquet").content)
    told = {"block": f"{DATASET}?block={config.head}", "file": str(file)}
    return dg.MaterializeResult(metadata=told, data_version=dg.DataVersion(config.head))


@dg.sensor(target=[cities], minimum_interval_seconds=30)
def head_moved(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Ask for a run if the head is another one."""
    head = asked("refs/head").text.strip()
    if head == context.cursor:
        return dg.SkipReason(f"{DATASET} is still at {head}")
    context.update_cursor(head)
    return dg.RunRequest(run_key=head, run_config=dg.RunConfig({"cities": Pinned(head=head)}))


defs = dg.Definitions(assets=[cities], sensors=[head_moved])
