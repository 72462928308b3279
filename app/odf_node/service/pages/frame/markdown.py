"""Convert Markdown by strangers into HTML that is safe in a page. It runs in reader processes.

HTML within the text is shown as text. Links may lead to http, https and mailto addresses only.
Pictures become links, since pages load no foreign content.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...limits.texts import MARKDOWN_CHARS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markupsafe import Markup

SCHEMES = frozenset({"http", "https", "mailto"})
TOP = 3
"""Level of the first heading of a document, below those of the page."""


def markdown(text: str) -> Markup | None:
    """Return the text as HTML; None if it is too long for a page."""
    from markupsafe import Markup  # imported late: the start does not need it

    if len(text) > MARKDOWN_CHARS:
        return None
    return Markup(_renderer().render(text))  # noqa: S704 - the renderer escapes HTML


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    made.validateLink = _leads_to_the_web  # type: ignore[method-assign]
    made.add_render_rule("heading_open", _heading)
    made.add_render_rule("heading_close", _heading)
    made.add_render_rule("link_open", _link)
    made.add_render_rule("image", _picture)
    return made


def _leads_to_the_web(url: str) -> bool:
    try:
        return urlsplit(url).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _heading(renderer: Any, tokens: Sequence[Token], at: int, options: Any, _: Any) -> str:
    token = tokens[at]
    token.tag = f"h{min(6, TOP - 1 + int(token.tag[1:]))}"
    return str(renderer.renderToken(tokens, at, options, {}))


def _link(renderer: Any, tokens: Sequence[Token], at: int, options: Any, _: Any) -> str:
    tokens[at].attrSet("rel", "noopener nofollow ugc")
    return str(renderer.renderToken(tokens, at, options, {}))


def _picture(_: Any, tokens: Sequence[Token], at: int, __: Any, ___: Any) -> str:
    from markupsafe import escape

    token = tokens[at]
    source, text = str(token.attrs.get("src", "")), token.content or "picture"
    return f'<a href="{escape(source)}" rel="noopener nofollow ugc">{escape(text)}</a>'
