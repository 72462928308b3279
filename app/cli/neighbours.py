"""What to say when no dataset is at an address: the names that are nearest to it."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from odf_node.protocol.errors import NodeError

from ..client.node_api import NodeApi, NothingThere
from ..client.text import one_line

MOST_NAMES = 1_000
"""Names looked through; a suggestion is worth no more requests."""
SHOWN = 3


@contextmanager
def suggesting(base: str, token: str | None, http: httpx.Client) -> Iterator[None]:
    """Requests to the dataset at `base`. Raises `NothingThere`: with the nearest names."""
    try:
        yield
    except NothingThere as missing:
        url = base.rstrip("/")
        message = f"{url}: {missing.message}"
        if names := _nearest(url, token, http):
            message += f"; did you mean {' or '.join(names)}?"
        raise NothingThere(message, **missing.facts, nearest=names) from missing


def _nearest(url: str, token: str | None, http: httpx.Client) -> list[str]:
    """Aliases of the node that look like the path of the address, the most alike first."""
    for parts in (1, 2):  # of an alias: name, or account and name
        node, alias = _split(url, parts)
        if not node:
            return []
        try:
            listed = itertools.islice(NodeApi(node, token, http=http).datasets(), MOST_NAMES)
            names = [one_line(str(one.get("alias"))) for one in listed]
        except NodeError:  # no node there: the path is longer, or nobody answers
            continue
        return difflib.get_close_matches(alias, names, n=SHOWN)
    return []


def _split(url: str, parts: int) -> tuple[str, str]:
    words = url.rsplit("/", parts)
    is_cut = len(words) == parts + 1 and not words[0].endswith("/")
    return (words[0] + "/", "/".join(words[1:])) if is_cut else ("", "")
