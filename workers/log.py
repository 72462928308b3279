"""The log of the worker; how lines are written is in `storage/logs.py`."""

from __future__ import annotations

import logging

from storage.logs import line as line
from storage.logs import set_up as set_up

LOGGER = logging.getLogger("odf.worker")
