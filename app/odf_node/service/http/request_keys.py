"""`Idempotency-Key`: the name that a client gives a request, so that it can safely repeat it.

Every repeat gets the response of the first request, until the key expires. A key is valid for one
account and one dataset. Source: the IETF draft of the header, which requires quotes around the
key; the node also accepts keys without quotes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import AccountId, DatasetEntry, RequestKey

MAX_CHARS = 255
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class MalformedRequestKey(BadInput):
    """The header `Idempotency-Key` does not contain a valid key."""


def parse_key(header: str | None) -> str | None:
    """Return the key in the header, None without a header. Raises `MalformedRequestKey`."""
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
    """Return the key with the hash of the request it names. `asked` describes the request, body
    included; the key expires at `until`."""
    content = json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()
    return RequestKey(entry.id, account, key, Multihash.of(content), until)
