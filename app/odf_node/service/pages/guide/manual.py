"""The manual: the pages of `docs/` at `/docs/manual`, with links between them, and search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import re2
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.sql_text import quoted_name

from ... import pages
from ...auth.actors import Actor
from ..frame import views
from ..frame.render import page, shown, tagged
from ..frame.views import Views

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

ADDRESS = "/docs/manual"
INDEX = "README"
"""The page that lists the others; it is shown at `ADDRESS` itself."""
TOUR, TOUR_FILE = "tour", "README.md"
"""The page that the sources begin with, which is above `docs/`."""
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
MAX_QUERY_CHARS, MAX_WORDS = 200, 8
MOST_FOUND = 30
_MARKS = re2.compile(r"\[([^\[\]]*)\]\([^()]*\)|[`*]{1,3}|\| ?")
"""Marks of Markdown that would disturb in a list of hits: links, code, stress, tables."""
_KEPT = {"cache-control": "max-age=3600"}


class Section(NamedTuple):
    """A heading of a page and the text below it, up to the next heading."""

    page: str
    anchor: str
    title: str
    text: str


class Hit(NamedTuple):
    """A section that holds all words of a search."""

    page: str
    page_title: str
    anchor: str
    title: str
    words: list[tuple[str, bool]]
    """Text around the words, in pieces, each with whether it is one of the words."""


@dataclass(frozen=True)
class Manual:
    """The pages by name without `.md`, such as `query` or `decisions/query`, and the pictures."""

    folder: Traversable
    tour: Traversable
    lock: Lock

    @cached_property
    def pages(self) -> dict[str, str]:
        found = {
            str(path.with_suffix("")): file.read_text("utf-8")
            for path, file in _files(self.folder)
            if path.suffix == ".md"
        }
        return found | {TOUR: self.tour.read_text("utf-8")}

    @cached_property
    def pictures(self) -> dict[str, bytes]:
        found = _files(self.folder)
        return {str(path): file.read_bytes() for path, file in found if path.suffix in PICTURES}

    def page(self, name: str) -> str:
        """Return the text of a page. Raises `NoSuchPage`."""
        if name not in self.pages:
            raise NotFound("NoSuchPage", f"the manual has no page {name!r}; its search may find it")
        return self.pages[name]

    def search(self, words: Sequence[str]) -> list[Hit]:
        """Return the sections that hold all words or words that begin so, the best first."""
        if not words:
            return []
        asked = " ".join(quoted_name(word) + "*" for word in words)
        with self.lock:
            rows = self._index.execute(
                "SELECT page, anchor, title, snippet(sections, 3, char(1), char(2), '…', 24) "
                "FROM sections WHERE sections MATCH ? ORDER BY bm25(sections, 4, 0, 8, 1), rowid "
                "LIMIT ?",
                (asked, MOST_FOUND),
            ).fetchall()
        return [
            Hit(page, title_of(self.pages[page]), anchor, title, _pieces(snippet))
            for page, anchor, title, snippet in rows
        ]

    @cached_property
    def _index(self) -> sqlite3.Connection:
        made = sqlite3.connect(":memory:", check_same_thread=False)
        made.execute(
            "CREATE VIRTUAL TABLE sections USING "
            "fts5(page, anchor UNINDEXED, title, text, tokenize = 'porter unicode61')"
        )
        rows = (
            each._replace(text=_MARKS.sub(r"\1", each.text))
            for name, text in self.pages.items()
            for each in sections(name, text)
        )
        made.executemany("INSERT INTO sections VALUES (?, ?, ?, ?)", rows)
        return made


@cache
def manual() -> Manual:
    """Return the manual of the installed package, or of the checkout that the node runs from."""
    inside = files(pages).joinpath("manual_pages")
    if inside.is_dir():
        return Manual(inside, inside.joinpath(f"{TOUR}.md"), Lock())
    root = Path(__file__).parents[5]
    return Manual(root / "docs", root / TOUR_FILE, Lock())


def _files(
    folder: Traversable, inside: PurePosixPath = PurePosixPath()
) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for one in sorted(folder.iterdir(), key=lambda found: found.name):
        path = inside / one.name
        if one.is_dir():
            yield from _files(one, path)
        else:
            yield path, one


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as the usual viewers make it."""
    kept = (sign for sign in heading.strip().lower() if sign.isalnum() or sign in "_- ")
    return "".join(kept).replace(" ", "-")


def title_of(text: str) -> str:
    """Return the first heading of a page."""
    return text.partition("\n")[0].lstrip("# ").strip()


def sections(name: str, text: str) -> Iterator[Section]:
    """Return the sections of a page; those of blocks of code have no headings of their own."""
    title, lines = title_of(text), list[str]()
    for line in text.splitlines()[1:]:
        if line.startswith("#") and line.lstrip("#").startswith(" "):
            yield Section(name, anchor_of(title), title, "\n".join(lines))
            title, lines = line.lstrip("#").strip(), []
        else:
            lines.append(line)
    yield Section(name, anchor_of(title), title, "\n".join(lines))


def _pieces(snippet: str) -> list[tuple[str, bool]]:
    first, *others = snippet.split("\x01")
    found = [(first, False)]
    for other in others:
        word, _, rest = other.partition("\x02")
        found += [(word, True), (rest, False)]
    return [each for each in found if each[0]]


def address_of(link: str, beside: str, root: str) -> str | None:
    """Return where a link of the page `beside` leads: to the web, to a page or a picture of the
    manual; None if it leads to a file of the sources."""
    if ":" in link or link.startswith("#"):
        return link
    path, sign, anchor = link.partition("#")
    source = TOUR_FILE if beside == TOUR else f"docs/{beside}.md"
    parts = list(PurePosixPath(source).parent.parts)
    for part in PurePosixPath(path).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    target = f"{TOUR}.md" if parts == [TOUR_FILE] else "/".join(parts[1:])
    name = target.removesuffix(".md")
    if name == target:
        return f"{root}{ADDRESS}/{name}" if name in manual().pictures else None
    if name not in manual().pages or (parts[0] != "docs" and name != TOUR):
        return None
    return f"{root}{ADDRESS}" + ("" if name == INDEX else f"/{name}") + sign + anchor


@cache
def html_of(name: str, root: str) -> str:
    """Return a page as HTML; `root` is the prefix of this node's addresses. Raises `NoSuchPage`."""
    from markupsafe import Markup

    text = manual().page(name)
    made = _renderer().render(text, {"name": name, "root": root})
    return Markup(made)  # noqa: S704 - a page of this package, and its HTML is escaped


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table")
    for rule, renders in _RULES.items():
        made.add_render_rule(rule, renders)
    return made


def _heading(renderer: Any, tokens: Sequence[Token], at: int, options: Any, _: Any) -> str:
    text = "".join(one.content for one in tokens[at + 1].children or ())
    tokens[at].attrSet("id", anchor_of(text))
    return str(renderer.renderToken(tokens, at, options, {}))


def _link(renderer: Any, tokens: Sequence[Token], at: int, options: Any, given: Any) -> str:
    leads = address_of(str(tokens[at].attrs["href"]), given["name"], given["root"])
    if leads is None:  # the text stays
        del tokens[at].attrs["href"]
    else:
        tokens[at].attrSet("href", leads)
    return str(renderer.renderToken(tokens, at, options, {}))


def _picture(renderer: Any, tokens: Sequence[Token], at: int, options: Any, given: Any) -> str:
    token = tokens[at]
    leads = address_of(str(token.attrs["src"]), given["name"], given["root"])
    token.attrSet("src", leads or "")
    token.attrSet("alt", token.content)
    return str(renderer.renderToken(tokens, at, options, {}))


def _table(_: Any, tokens: Sequence[Token], at: int, __: Any, ___: Any) -> str:
    is_begin = tokens[at].nesting == 1
    return '<div class="wide" tabindex="0"><table>\n' if is_begin else "</table></div>\n"


def _head(renderer: Any, tokens: Sequence[Token], at: int, options: Any, _: Any) -> str:
    token = tokens[at]
    inline = tokens[at + token.nesting]
    if not inline.content:  # a column without a name has no header
        token.tag = "td"
    return str(renderer.renderToken(tokens, at, options, {}))


def _code(_: Any, tokens: Sequence[Token], at: int, __: Any, ___: Any) -> str:
    from markupsafe import escape

    return f'<pre tabindex="0"><code>{escape(tokens[at].content)}</code></pre>\n'


_RULES = {
    "th_open": _head,
    "th_close": _head,
    "code_block": _code,
    "fence": _code,
    "heading_open": _heading,
    "link_open": _link,
    "image": _picture,
    "table_open": _table,
    "table_close": _table,
}


def words_of(query: str) -> list[str]:
    """Return the words of a search. Raises `MalformedSearch`."""
    if len(query) > MAX_QUERY_CHARS:
        raise BadInput("MalformedSearch", f"a search has at most {MAX_QUERY_CHARS} characters")
    return query.replace("\0", " ").split()[:MAX_WORDS]


def _shown(given: Views, actor: Actor, request: Request) -> Response:
    names = request.path_params
    name = "/".join(filter(None, (names.get("folder"), names.get("name")))) or INDEX
    picture = manual().pictures.get(name)
    if picture is not None:
        return Response(picture, headers=_KEPT, media_type=PICTURES[PurePosixPath(name).suffix])
    query = request.query_params.get("q", "").strip()
    framed = views.frame(given, actor, request.url.path)
    text = manual().page(name)
    content = {
        "query": query,
        "most": MOST_FOUND,
        "hits": manual().search(words_of(query)) if query else None,
        "title": title_of(text),
        "text": None if query else html_of(name, framed["root"]),
        "sections": [] if query else list(sections(name, text))[1:],
        "address": framed["root"] + ADDRESS,
        "is_index": name == INDEX,
    }
    return tagged(page("manual", {**framed, **content}), request)


ROUTES = tuple(
    Route(ADDRESS + below, shown(_shown)) for below in ("", "/{name}", "/{folder}/{name}")
)
