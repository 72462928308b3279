"""The log of the worker; how lines are written is in `storage/runtime/logs.py`."""

from __future__ import annotations

import logging

from odf_node.storage.runtime.logs import line as line
from odf_node.storage.runtime.logs import set_up as set_up

LOGGER = logging.getLogger("odf.worker")
