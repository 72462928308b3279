"""A run for each new head of a dataset, which keeps its current rows as a Parquet file.

The name of the file is the hash of the head, and the rows are read as of that block, so a task that
is repeated reads the same rows. Set ODF_DATASET, and ODF_NODE_TOKEN for a private dataset.
"""

import os
from pathlib import Path

import httpx
from airflow.sdk import dag, task
from odf_heads import HeadSensor

DATASET = os.environ.get("ODF_DATASET", "http://127.0.0.1:8080/cities")
TOKEN = os.environ.get("ODF_NODE_TOKEN")
FOLDER = Path(os.environ.get("ODF_FOLDER", "odf-files"))


@task
def keep(head: str) -> str:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{head}.parquet"
    asked = {"asAt": head, "format": "parquet"}
    headers = {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    answer = httpx.get(f"{DATASET}/read", params=asked, headers=headers, timeout=60)
    file.write_bytes(answer.raise_for_status().content)
    return str(file)


@dag(schedule="@continuous", max_active_runs=1, catchup=False)
def cities():
    keep(HeadSensor(task_id="head", dataset=DATASET, token=TOKEN).output)


cities = cities()
