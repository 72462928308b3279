"""A process that collects garbage without end, with a grace time just long enough for the tests."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta

from crash_work import settings_of

from odf_protocol.errors import code_of
from odf_storage.datasets.node.open_stores import open_stores
from odf_storage.datasets.upkeep.gc import collect_garbage

GRACE = timedelta(seconds=45)
"""Longer than anything takes here from its last look at an object to its commit."""


def main() -> None:
    while True:
        try:
            stores = open_stores(settings_of(json.loads(sys.argv[1])), migrate=False, repair=False)
            collect_garbage(stores, grace=GRACE)
            stores.close()
        except Exception as problem:
            print(code_of(problem), problem, flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()
