"""Suggestions when no dataset is at an address: the names that are nearest to it."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from odf_protocol.errors import NodeError

from ...client.nodes.later import httpx
from ...client.nodes.limits import one_line
from ...client.nodes.node_api import NodeApi, NothingThere

MOST_NAMES = 1_000
"""Limit of names that a search for suggestions reads, as it is not worth more requests."""
SHOWN = 3


@contextmanager
def suggesting(base: str, token: str | None, http: httpx.Client) -> Iterator[None]:
    """Add the nearest names to a `NothingThere` of requests to the dataset at `base`."""
    try:
        yield
    except NothingThere as missing:
        url = base.rstrip("/")
        message = f"{url}: {missing.message}"
        is_renamed = "location" in missing.facts
        if names := [] if is_renamed else _nearest(url, token, http):
            message += f"; did you mean {' or '.join(names)}?"
        raise NothingThere(message, **missing.facts, nearest=names) from missing


def _nearest(url: str, token: str | None, http: httpx.Client) -> list[str]:
    """Return the node's aliases that are similar to the path of the address, most similar first."""
    for parts in (1, 2):  # an alias is a name, or an account and a name
        node, alias = _split(url, parts)
        if not node:
            return []
        try:
            listed = itertools.islice(NodeApi(node, token, http=http).datasets(), MOST_NAMES)
            names = [one_line(str(one.get("alias"))) for one in listed]
        except NodeError:  # no node here: the alias has two parts, or no server responds
            continue
        if alias in names:  # the dataset is there: what is absent is something of it
            return []
        return difflib.get_close_matches(alias, names, n=SHOWN)
    return []


def _split(url: str, parts: int) -> tuple[str, str]:
    words = url.rsplit("/", parts)
    is_cut = len(words) == parts + 1 and not words[0].endswith("/")
    return (words[0] + "/", "/".join(words[1:])) if is_cut else ("", "")
