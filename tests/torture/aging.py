"""Runs a program in which objects are young for seconds only: the collector's grace time is short.

    python aging.py odf-node serve …
    python aging.py ingesting.py …

A young object needs no renewal, so a grace time has to be far longer than objects are young. With
the ten minutes of the product, one that a push had put, and that the push took up again later,
could be removed before the commit.
"""

from __future__ import annotations

import runpy
import sys
from datetime import timedelta
from importlib.metadata import entry_points

from odf_storage.stores.objects import s3_age

YOUNG = timedelta(seconds=5)
"""Far shorter than the grace time in `collecting.py`."""


def main() -> None:
    s3_age.YOUNG = YOUNG
    del sys.argv[0]
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    (program,) = entry_points(group="console_scripts", name=sys.argv[0])
    sys.exit(program.load()())


if __name__ == "__main__":
    main()
