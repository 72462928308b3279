"""The log of the worker; `odf_storage/runtime/logs.py` defines the format of its lines."""

from __future__ import annotations

import logging

from odf_storage.runtime.logs import line as line
from odf_storage.runtime.logs import set_up as set_up

LOGGER = logging.getLogger("odf.worker")
