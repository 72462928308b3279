"""Templates into answers: escaping is on, nothing foreign is loaded, nothing may frame them."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from ...client.text import one_line, size_text

if TYPE_CHECKING:
    from jinja2 import Environment

HEADERS = {
    "cache-control": "no-cache, private",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "referrer-policy": "same-origin",
    "vary": "accept, cookie",
}
MAX_JSON_CHARS = 200
_CODE = re.compile(r"`([^`]+)`")


def page(name: str, content: dict[str, Any], status: int = 200) -> Response:
    """The template `name` filled in."""
    text = _environment().get_template(f"{name}.html").render(content)
    return HTMLResponse(text, status, HEADERS)


def static(name: str, media_type: str) -> Response:
    """A file of the pages, as it is."""
    headers = {"cache-control": "max-age=3600"}
    return Response(_static(name), headers=headers, media_type=media_type)


@cache
def _static(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # not needed to start

    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"size": size_text, "count": count_text, "moment": moment_text}
    made.filters |= {"short_json": short_json, "result": result_text}
    made.filters |= {"prose": prose, "linked_data": linked_data}
    return made


def prose(text: str | None) -> str:
    """Our own words, in which backticks mean code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text or ""))))  # noqa: S704 - escaped


def linked_data(document: dict[str, Any]) -> str:
    """JSON inside of a script element, which no text of the document can end."""
    from markupsafe import Markup

    text = json.dumps(document, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - escaped


def short_json(value: Any) -> str:
    """A value in one short line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_JSON_CHARS else text[: MAX_JSON_CHARS - 1] + "…"


def result_text(result: dict[str, Any]) -> str:
    """What a job says came of it: its outcome, its reason, and counts that are not 0."""
    said = [str(result[name]) for name in ("outcome", "reason") if result.get(name)]
    counts = [
        f"{re.sub('[A-Z]', lambda found: f' {found[0].lower()}', name)} {count_text(value)}"
        for name, value in result.items()
        if type(value) is int and value
    ]
    return one_line(": ".join(said)) + (" · " if said and counts else "") + ", ".join(counts)


def count_text(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def moment_text(instant: str) -> str:
    """An instant to the second: `2024-01-31 23:59:59`, in UTC."""
    return instant[:19].replace("T", " ")
