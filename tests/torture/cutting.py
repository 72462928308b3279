"""The real worker, but for batches of a kilobyte it takes the jobs of Spark that it takes for
large ones."""

from __future__ import annotations

from odf_workers import main
from odf_workers.stages import pipeline

SMALLEST_BYTES = 1_000

if __name__ == "__main__":
    pipeline.SMALLEST_PARTITION_BYTES = SMALLEST_BYTES
    main.main()
