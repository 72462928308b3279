"""Log lines: one event each, constant text first, fields as `key=value` behind it."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

LOGGER = logging.getLogger("odf.worker")


def set_up(level: str) -> None:
    """Send log lines to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


def line(event: str, **fields: Any) -> str:
    """`event key=value …`; values with blanks or quotes are quoted, empty ones left out."""
    shown = [f"{key}={_text(value)}" for key, value in fields.items() if value is not None]
    return " ".join([event, *shown])


def _text(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    plain = text and text.isprintable() and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)
