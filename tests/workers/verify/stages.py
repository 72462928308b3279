"""Stages for the tests of verification on Spark. Executors are sent them by their code."""

from __future__ import annotations

import os
import time

from odf_storage.datasets.verify.source import ObjectSource


def dying(_source: ObjectSource, number: int) -> int:
    if number == 1:
        os._exit(9)
    return number


def sleeping(_source: ObjectSource, seconds: float) -> float:
    time.sleep(seconds)
    return seconds
