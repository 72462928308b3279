"""All tables of the wire model, by name."""

from __future__ import annotations

from . import block, data, engine, events, reading, schema, sources, transforms
from .field import Tables

_PARTS = (data, schema, reading, transforms, sources, events, block, engine)
TABLES: Tables = {name: fields for part in _PARTS for name, fields in part.TABLES.items()}
