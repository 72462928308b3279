"""Routes for the caller's webhooks at a dataset."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odf_storage.stores.ports.values import Account
from odf_storage.stores.ports.webhooks import DeliveryAttempt

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import AccessDep, ActorDep, OutgoingDep, ReadableDep, wired
from ..limits.shares import caller_of
from . import webhooks as usecase
from .webhooks import Webhooks, find_webhook, read_body, shown, shown_attempt

MAX_BODY_BYTES = 8192
WebhooksDep = Annotated[Webhooks, Depends(wired(Webhooks))]


async def _managing(actor: ActorDep) -> Account:
    return usecase.managing(actor)


ManagingDep = Annotated[Account, Depends(_managing)]


def webhooks(hooks: WebhooksDep, entry: ReadableDep, account: ManagingDep) -> Response:
    """List the caller's webhooks in the order of their creation."""
    found = hooks.store.of_account(entry.id, account.id)
    return JsonAnswer({"webhooks": [shown(each) for each in found]})


async def add(
    request: Request,
    hooks: WebhooksDep,
    entry: ReadableDep,
    account: ManagingDep,
    outgoing: OutgoingDep,
) -> Response:
    """Add `{"url": "https://…"}`; `since` is `beginning` or a block. Show the secret once."""
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    work = partial(usecase.add_webhook, hooks, account, entry, body)  # resolves a name
    made, secret = await outgoing.run(caller_of(request.scope), work)
    return JsonAnswer({**shown(made), "secret": secret}, 201)


def show(webhook: str, hooks: WebhooksDep, entry: ReadableDep, account: ManagingDep) -> Response:
    """Show a webhook with its newest attempts."""
    found = find_webhook(hooks.store, account, entry, webhook)
    attempts = hooks.store.attempts(found.id, limit=usecase.SHOWN_ATTEMPTS)
    return JsonAnswer({**shown(found), "attempts": [shown_attempt(each) for each in attempts]})


def remove(webhook: str, hooks: WebhooksDep, entry: ReadableDep, account: ManagingDep) -> Response:
    """Remove a webhook; a running delivery may still arrive."""
    hooks.store.remove(find_webhook(hooks.store, account, entry, webhook).id)
    return Response(status_code=204)


def replay(
    webhook: str,
    hooks: WebhooksDep,
    entry: ReadableDep,
    account: ManagingDep,
    since: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Deliver again the blocks after `since`; without it, resume at the last position."""
    found = find_webhook(hooks.store, account, entry, webhook)
    usecase.replay(hooks.store, found, entry, since)
    return JsonAnswer(shown(find_webhook(hooks.store, account, entry, webhook)))


def change_secret(
    webhook: str, hooks: WebhooksDep, entry: ReadableDep, account: ManagingDep
) -> Response:
    """Replace the secret and show the new one once; the old one also signs for a while."""
    found = find_webhook(hooks.store, account, entry, webhook)
    return JsonAnswer({**shown(found), "secret": usecase.change_secret(hooks, found)})


async def ping(
    webhook: str,
    request: Request,
    hooks: WebhooksDep,
    entry: ReadableDep,
    account: ManagingDep,
    access: AccessDep,
    outgoing: OutgoingDep,
) -> Response:
    """Send a signed empty delivery, and return its outcome."""

    def work() -> DeliveryAttempt:
        found = find_webhook(hooks.store, account, entry, webhook)
        return usecase.ping(hooks, found, entry, access.shown_alias(entry))

    attempt = await outgoing.run(caller_of(request.scope), work)
    return JsonAnswer(shown_attempt(attempt))


def add_webhook_routes(routes: APIRouter, prefix: str) -> None:
    """Add the routes below the dataset addresses."""
    tags: list[str | Enum] = ["webhooks"]
    all_, one = prefix + "/webhooks", prefix + "/webhooks/{webhook}"
    routes.get(all_, summary="Your webhooks at a dataset", tags=tags)(webhooks)
    routes.post(all_, summary="Add a webhook", status_code=201, tags=tags)(add)
    routes.get(one, summary="A webhook and its newest attempts", tags=tags)(show)
    routes.delete(one, summary="Remove a webhook", status_code=204, tags=tags)(remove)
    routes.post(one + "/replay", summary="Deliver again, or go on", tags=tags)(replay)
    routes.post(one + "/secret", summary="Change the secret of a webhook", tags=tags)(change_secret)
    routes.post(one + "/ping", summary="Try a webhook", tags=tags)(ping)
