"""The log of the worker; `storage/runtime/logs.py` defines the format of its lines."""

from __future__ import annotations

import logging

from odf_node.storage.runtime.logs import line as line
from odf_node.storage.runtime.logs import set_up as set_up

LOGGER = logging.getLogger("odf.worker")
