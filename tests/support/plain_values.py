"""Values of frames and of Arrow in one form, to be compared as JSON. Needs nothing but Python."""

import datetime
import decimal
import math


def plain(value):
    """Instants in UTC as text, numbers as numbers, nulls of any kind as None."""
    if hasattr(value, "tolist") and not isinstance(value, (datetime.datetime, str)):
        value = value.tolist()
    if value is None or type(value).__name__ in ("NaTType", "NAType") or value != value:
        return None
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        zoned = value.tzinfo is not None
        instant = value.astimezone(datetime.UTC) if zoned else value.replace(tzinfo=datetime.UTC)
        return instant.isoformat()
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    if isinstance(value, (datetime.date, datetime.time, decimal.Decimal)):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value
