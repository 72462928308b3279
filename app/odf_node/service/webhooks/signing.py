"""Secrets and signatures of webhooks by Standard Webhooks: HMAC-SHA256, `v1`."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence

from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.randomness import Random

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret(random: Random) -> str:
    """Return a new secret in the form that its owner sees once."""
    return PREFIX + base64.b64encode(random(SECRET_BYTES)).decode()


def signed_headers(
    secrets: Sequence[str], message: str, body: bytes, at: Instant
) -> dict[str, str]:
    """Return the headers of an attempt. `message` is the id of the delivery, `at` its time.

    The header has a signature for each secret; receivers need one to match. The signed text is
    `{id}.{unix seconds}.{body}`. Receivers refuse times that are more than five minutes off.
    """
    moment = str(at.ns // NANOS)
    content = f"{message}.{moment}.".encode() + body
    signatures = []
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix(PREFIX))
        digest = hmac.digest(key, content, hashlib.sha256)
        signatures.append(f"v1,{base64.b64encode(digest).decode()}")
    return {
        "webhook-id": message,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(signatures),
    }
