"""A worker that ingests and derives without Spark, as a process: it works until it is killed.

Rows are appended as `ingesting.py` does it, derivatives are computed by DataFusion.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from tests.workers.derivatives import node_of

from odf_protocol.errors import code_of
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.node.stores import Stores
from odf_workers.program.loop import Worker

LEASE = timedelta(seconds=2)


def work(stores: Stores, scratch: Path) -> None:
    """Run jobs until something breaks."""
    worker = Worker(
        stores=stores,
        context=node_of(stores, scratch),
        name=f"deriving-{time.time_ns()}",
        lease=LEASE,
        longest_pause_s=0.2,
    )
    worker.work()


def main() -> None:
    from crash_work import settings_of

    while True:
        try:
            stores = open_stores(settings_of(json.loads(sys.argv[1])), migrate=False, repair=False)
            with tempfile.TemporaryDirectory() as scratch:
                work(stores, Path(scratch))
        except Exception as problem:  # a server is being killed: look again
            print(code_of(problem), problem, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
