"""`Idempotency-Key`: what a client calls a request, so that it may send it again.

The answer of the first time is the answer of every repeat, until the key expires. Keys are
those of an account on a dataset. Source: the IETF draft of the header, which has it as a string
in quotes; without them is taken as well.
"""

from __future__ import annotations

import json
import re
from typing import Any

from odf_node.protocol.errors import BadInput
from odf_node.protocol.instant import Instant
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.ports.values import AccountId, DatasetEntry, RequestKey

MAX_CHARS = 255
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class MalformedRequestKey(BadInput):
    """An Idempotency-Key that is none."""


def parse_key(header: str | None) -> str | None:
    """The key of a request that has one. Raises `MalformedRequestKey`."""
    if header is None:
        return None
    text = header.strip()
    if quoted := _QUOTED.fullmatch(text):
        text = re.sub(r"\\(.)", r"\1", quoted[1])
    if len(text) > MAX_CHARS or not _KEY.fullmatch(text):
        raise MalformedRequestKey(
            f"an Idempotency-Key has 1 to {MAX_CHARS} printable ASCII characters"
        )
    return text


def request_key(
    entry: DatasetEntry, account: AccountId, key: str, asked: dict[str, Any], *, until: Instant
) -> RequestKey:
    """The key together with what was asked under it, body included, and how long it holds."""
    content = json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
    return RequestKey(entry.id, account, key, Multihash.of(content), until)
