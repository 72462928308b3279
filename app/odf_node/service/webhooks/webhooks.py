"""Webhooks of datasets: an account registers an address that receives the blocks it may read.

Only that account sees the address, the secret and the errors. The secret is shown once and stored
sealed.

Sealed secrets of a webhook: the current one, and for a while the one that it replaced.

A secret can be unsealed for its webhook and dataset only. The sealed text is the secret. After a
change it is the new secret, the old one, and the time until which the old one also signs,
separated by blanks.

Secrets and signatures of webhooks by Standard Webhooks: HMAC-SHA256, `v1`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.node.reader import Reading
from odf_storage.runtime.clock import Clock, Random
from odf_storage.runtime.networks import reachable
from odf_storage.stores.ports.values import Account, DatasetEntry, Scope
from odf_storage.stores.ports.webhooks import (
    WEBHOOK_SECRET,
    DeliveryAttempt,
    Webhook,
    secret_owner,
)
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.datasets.webhooks import WebhookStore

from ..auth.access import Unauthenticated, unauthorized
from ..auth.actors import Actor
from ..news.feeds import ChainPosition
from .sending import Sender, ping_of


def opened(keys: SecretKeys, webhook: Webhook, now: Instant) -> list[str]:
    """Return the secrets that sign now, the newest first. Raises `SecretUnreadable`."""
    text = keys.text_of(webhook.secret_owner, WEBHOOK_SECRET, webhook.sealed_secret)
    newest, *before = text.split(" ")
    return [newest, before[0]] if before and now < Instant.parse(before[1]) else [newest]


def changed(old: str, new: str, until: Instant) -> str:
    """Return the text to seal when `new` signs, and `old` also signs until `until`."""
    return f"{new} {old} {until}"


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


WEBHOOKS_ACCOUNT = 20
"""Most webhooks an account may have at one dataset."""

WEBHOOK_OLD_SECRET_S = 86_400
"""Seconds an old secret signs too."""

MAX_URL_CHARS = 2048
PORTS = {"http": 80, "https": 443}
SHOWN_ATTEMPTS = 100


class WebhookBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    since: str | None = None
    """The position after which deliveries begin; None means the head."""


@dataclass(frozen=True)
class Webhooks:
    """The webhooks of a node: their store, the keys that seal secrets, and the sender."""

    store: WebhookStore
    reading: Reading
    keys: SecretKeys
    sender: Sender
    most: int
    """Limit of webhooks of an account at one dataset."""
    old_secret_s: int
    public_url: str | None
    clock: Clock
    random: Random


def read_body(content: bytes) -> WebhookBody:
    """Parse the body of a request. Raises `MalformedWebhook`."""
    try:
        return decode_json(content, WebhookBody)
    except (msgspec.DecodeError, UnicodeError):
        raise BadInput(
            "MalformedWebhook",
            'the body has to be JSON: {"url": "https://…", "since": "beginning" or a block}',
        ) from None


def managing(actor: Actor) -> Account:
    """Return the account whose webhooks the actor manages.

    Raises `Unauthenticated`, `Unauthorized`.
    """
    if actor.account is None:
        raise Unauthenticated
    if not actor.may(Scope.MANAGE):
        raise unauthorized()
    return actor.account


def add_webhook(
    hooks: Webhooks, account: Account, entry: DatasetEntry, body: WebhookBody
) -> tuple[Webhook, str]:
    """Add a webhook. Return it and its secret.

    Raises:
        MalformedWebhook, InvalidPosition. HostRefused: the host is not on the public network.
        TooManyWebhooks.
    """
    check_url(body.url, hooks.sender.networks)
    with hooks.reading() as reader:
        head = reader.refs.head(entry.id)
    position = head if body.since is None else since_of(entry, body.since)
    id_, secret = f"wh_{hooks.random(12).hex()}", new_secret(hooks.random)
    now = hooks.clock()
    webhook = Webhook(
        id=id_,
        dataset=entry.id,
        account=account.id,
        url=body.url,
        sealed_secret=hooks.keys.kept(secret_owner(id_, entry.id), WEBHOOK_SECRET, secret),
        created_at=now,
        position=position,
    )
    if not hooks.store.add(webhook, most=hooks.most):
        raise LimitExceeded(
            "TooManyWebhooks",
            f"an account has at most {hooks.most} webhooks at a dataset",
            limit=hooks.most,
        )
    return webhook, secret


def check_url(url: str, networks: tuple[str, ...]) -> None:
    """Refuse an address that may not receive deliveries.

    Raises `MalformedWebhook`, `HostRefused`.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadInput("MalformedWebhook", "the address of a webhook is a URL") from None
    if parts.scheme not in PORTS or not host or len(url) > MAX_URL_CHARS or not url.isascii():
        raise BadInput(
            "MalformedWebhook",
            f"the address of a webhook is http(s)://host/…, of at most {MAX_URL_CHARS} characters",
        )
    if "@" in parts.netloc:
        raise BadInput("MalformedWebhook", "the address of a webhook has no user and password")
    try:
        reachable(host, port or PORTS[parts.scheme], networks)
    except (OSError, UnicodeError, ValueError):
        raise BadInput("MalformedWebhook", f"the host {host!r} has no address", host=host) from None


def since_of(entry: DatasetEntry, since: str) -> Multihash | None:
    """Return the position that a text names. Raises `InvalidPosition`."""
    return ChainPosition.parse(entry.id, since).block


def find_webhook(
    store: WebhookStore, account: Account, entry: DatasetEntry, webhook: str
) -> Webhook:
    """Return a webhook of the account at the dataset. Raises `WebhookNotFound`."""
    found = store.find(webhook)
    if found is None or (found.dataset, found.account) != (entry.id, account.id):
        raise NotFound("WebhookNotFound", f"you have no webhook {webhook[:50]!r} at this dataset")
    return found


def replay(store: WebhookStore, webhook: Webhook, entry: DatasetEntry, since: str | None) -> None:
    """Deliver blocks after `since`; None: resume at its position. Raises `InvalidPosition`."""
    position = webhook.position if since is None else since_of(entry, since)
    store.restart(webhook.id, position=position)


def change_secret(hooks: Webhooks, webhook: Webhook) -> str:
    """Replace the secret and return the new one; the old one also signs for a while.

    Raises `SecretUnreadable`.
    """
    now, new = hooks.clock(), new_secret(hooks.random)
    until = Instant(now.ns + hooks.old_secret_s * NANOS)
    text = changed(opened(hooks.keys, webhook, now)[0], new, until)
    sealed = hooks.keys.kept(webhook.secret_owner, WEBHOOK_SECRET, text)
    hooks.store.reseal(webhook.id, sealed)
    return new


def ping(hooks: Webhooks, webhook: Webhook, entry: DatasetEntry, alias: str) -> DeliveryAttempt:
    """Try the address at once, in any state of the webhook, and do not change the state."""
    source, now = source_of(hooks, entry, alias), hooks.clock()
    number = hooks.random(8).hex()
    message = ping_of(webhook, alias, source=source, number=number, at=now)
    signing = opened(hooks.keys, webhook, now)
    headers = signed_headers(signing, message.id, message.body, now)
    answer = hooks.sender.send(webhook.url, message, headers)
    error = None if answer.error is None else answer.error.code
    attempt = DeliveryAttempt(
        at=now, message=message.id, status=answer.status, error=error, took_ms=answer.took_ms
    )
    hooks.store.note(webhook.id, attempt)
    return attempt


def source_of(hooks: Webhooks, entry: DatasetEntry, alias: str) -> str:
    """Return the address of the dataset; its id if the node has no public address."""
    return str(entry.id) if hooks.public_url is None else f"{hooks.public_url}{alias}"


def shown(webhook: Webhook) -> dict[str, Any]:
    """Return a webhook as JSON for its account, without the secret."""
    problem = webhook.problem
    return {
        "id": webhook.id,
        "url": webhook.url,
        "state": webhook.state.value,
        "position": None if webhook.position is None else str(webhook.position),
        "createdAt": str(webhook.created_at),
        "failures": webhook.attempts,
        "failingSince": None if webhook.failing_since is None else str(webhook.failing_since),
        "notBefore": None if webhook.not_before is None else str(webhook.not_before),
        "problem": None
        if problem is None
        else {"error": problem.error, "message": problem.message},
    }


def shown_attempt(attempt: DeliveryAttempt) -> dict[str, Any]:
    """Return an attempt as JSON."""
    return {
        "at": str(attempt.at),
        "message": attempt.message,
        "status": attempt.status,
        "error": attempt.error,
        "tookMs": attempt.took_ms,
    }
