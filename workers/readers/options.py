"""Reader options that only know the reference's values."""

from __future__ import annotations

from .frame import Unsupported

_UTF8 = frozenset({"utf8", "utf-8"})


def check_encoding(encoding: str | None) -> None:
    if encoding is not None and encoding.lower() not in _UTF8:
        raise Unsupported(
            f"encoding {encoding!r} is not supported, only utf8: convert the file first",
            option="encoding",
        )


def check_time_formats(date_format: str | None, timestamp_format: str | None) -> None:
    for option, value in (("dateFormat", date_format), ("timestampFormat", timestamp_format)):
        if value is not None and value != "rfc3339":
            raise Unsupported(f"{option} {value!r} is not supported, only rfc3339", option=option)
