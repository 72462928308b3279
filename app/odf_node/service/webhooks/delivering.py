"""Deliver webhooks: the blocks after a webhook's position, one by one.

The chain is the queue: a webhook stores only a position. The position moves after the receiver has
accepted the delivery, so after a kill in between the node repeats it with the same id. A lease
ensures that one process at a time works on a webhook. A receiver that fails or is slow delays no
other for long: turns are short, the webhook that was served longest ago is next, and an account has
a share of the threads.

Decide after a failed attempt when the next one is, or that there is none.

Datasets whose polls fail, as all turns of a process know them: looked up once in a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from odf_protocol.errors import NodeError, Refused
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.following import Problem
from odf_storage.stores.ports.values import AccountId, Failing
from odf_storage.stores.ports.webhooks import DeliveryAttempt, Webhook, WebhookState

from ..auth.dataset_access import DatasetAccess
from ..news.feeds import ChainFeed, ChainPosition, Page
from ..news.notices import NewsNotice
from . import webhooks
from .sending import DeliveryAnswer, ReceiverGone, WebhookMessage, failing_of, message_of
from .webhooks import Webhooks, signed_headers, source_of

JITTER = 0.1
LONGEST_S = 86_400.0
"""Limit in seconds of a `Retry-After` that we follow."""


def after_failure(
    answer: DeliveryAnswer,
    *,
    failed_before: int,
    retry_s: Sequence[float],
    now: Instant,
    chance: float,
) -> tuple[WebhookState, Instant | None]:
    """Return the new state of the webhook, and the time before which nothing is sent.

    `failed_before` counts failures in a row without this one, `chance` is from 0 to 1.
    """
    if isinstance(answer.error, ReceiverGone):
        return WebhookState.ENDED, None
    if failed_before >= len(retry_s):
        return WebhookState.PAUSED, None
    pause_s = retry_s[failed_before] * (1 + JITTER * chance)
    pause_s = max(pause_s, min(answer.retry_after_s, LONGEST_S))
    return WebhookState.ACTIVE, Instant(now.ns + int(pause_s * NANOS))


MOST = 1_000
"""Limit of datasets that are looked up; those that fail for the longest are first."""


@dataclass
class FailingPolls:
    """Looks up at most every `each_s` seconds which datasets have polls that fail."""

    jobs: JobQueue
    each_s: float
    _until: float = 0.0
    _found: Mapping[DatasetId, Failing] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> Mapping[DatasetId, Failing]:
        with self._lock:
            if time.monotonic() >= self._until:
                found = self.jobs.failing(poll_job.KIND, limit=MOST)
                self._found = {each.dataset: each for each in found}
                self._until = time.monotonic() + self.each_s
            return self._found


_log = logging.getLogger("odf.webhooks")
TURN_S = 5.0
"""Seconds after which a turn ends with its delivery; then others that wait get the thread."""
SHARE = 4
"""An account has one of so many threads at a time."""
STOP_S = 5.0
CHANCES = 256
Holder = str


@dataclass(frozen=True)
class Delivering:
    """The parts of the node that deliver webhooks."""

    hooks: Webhooks
    feed: ChainFeed
    access: DatasetAccess
    retry_s: tuple[float, ...]
    failing: FailingPolls

    @property
    def lease_s(self) -> float:
        """Seconds for which a process leases a webhook: longer than an attempt takes."""
        return 2 * self.hooks.sender.timeout_s + 10


def take_turn(delivering: Delivering, webhook: str, go_on: Callable[[], bool]) -> None:
    """Deliver new notices in order, until all are delivered, one fails, or the turn is over."""
    hooks, holder = delivering.hooks, delivering.hooks.random(8).hex()
    held = _lease(delivering, webhook, holder)
    until = time.monotonic() + TURN_S
    try:
        if held is not None:
            held = _tell_failing(delivering, held, holder)
        while held is not None:
            page = _page(delivering, held)
            for notice in page.notices:
                position = held.position
                held = _lease(delivering, webhook, holder) if go_on() else None
                if held is None or held.position != position:
                    return
                held = _deliver(delivering, held, holder, notice)
                if held is None or time.monotonic() >= until:
                    return
            if page.is_last:
                return
    finally:
        hooks.store.release(webhook, holder)


def _lease(delivering: Delivering, webhook: str, holder: Holder) -> Webhook | None:
    now = delivering.hooks.clock()
    until = Instant(now.ns + int(delivering.lease_s * NANOS))
    return delivering.hooks.store.lease(webhook, holder, now=now, until=until)


def _page(delivering: Delivering, webhook: Webhook) -> Page:
    [page] = delivering.feed.pages([ChainPosition(webhook.dataset, webhook.position)])
    if isinstance(page, Exception):
        raise page
    return page


def _deliver(
    delivering: Delivering, webhook: Webhook, holder: Holder, notice: NewsNotice
) -> Webhook | None:
    """Deliver one notice. Return the webhook afterwards; None if its turn must end."""
    made = partial(_message_of_notice, webhook, notice)
    sent = _sent(delivering, webhook, holder, made)
    if sent is None:
        return None
    message, attempt = sent
    return _delivered(delivering, webhook, holder, attempt, message, Multihash.parse(notice.id))


def _tell_failing(delivering: Delivering, webhook: Webhook, holder: Holder) -> Webhook | None:
    """Deliver that the polls of the dataset fail, once after each success. Return as `_deliver`."""
    failing = delivering.failing.now().get(webhook.dataset)
    if failing is None or failing.first == webhook.failing_told:
        return webhook
    sent = _sent(delivering, webhook, holder, partial(failing_of, webhook, failing))
    if sent is None:
        return None
    first = failing.first
    is_ours = delivering.hooks.store.told_failing(webhook.id, holder, sent[1], first=first)
    return replace(webhook, failing_told=first) if is_ours else None


def _message_of_notice(
    webhook: Webhook, notice: NewsNotice, _: str, *, source: str
) -> WebhookMessage:
    return message_of(webhook, notice, source=source)


def _sent(
    delivering: Delivering, webhook: Webhook, holder: Holder, made: Callable[..., WebhookMessage]
) -> tuple[WebhookMessage, DeliveryAttempt] | None:
    """Make a message of the alias and the source, and send it. None, with the failure recorded, if
    the receiver has not taken it."""
    hooks = delivering.hooks
    # Checked after the page was read, so that the account may read what we send.
    entry = delivering.access.still_readable(webhook.dataset, webhook.account)
    if entry is None:
        problem = _problem(
            Refused("ReadingEnded", "the account of the webhook may not read the dataset any more")
        )
        hooks.store.failed(
            webhook.id, holder, None, problem=problem, state=WebhookState.ENDED, not_before=None
        )
        return None
    alias = delivering.access.shown_alias(entry)
    message = made(alias, source=source_of(hooks, entry, alias))
    now = hooks.clock()
    signing = webhooks.opened(hooks.keys, webhook, now)
    headers = signed_headers(signing, message.id, message.body, now)
    answer = hooks.sender.send(webhook.url, message, headers)
    attempt = DeliveryAttempt(
        at=now,
        message=message.id,
        status=answer.status,
        error=None if answer.error is None else answer.error.code,
        took_ms=answer.took_ms,
    )
    if answer.error is not None:
        _failed(delivering, webhook, holder, attempt, answer, answer.error)
        return None
    return message, attempt


def _delivered(
    delivering: Delivering,
    webhook: Webhook,
    holder: Holder,
    attempt: DeliveryAttempt,
    message: WebhookMessage,
    position: Multihash,
) -> Webhook | None:
    resets = webhook.resets + message.is_reset
    is_ours = delivering.hooks.store.delivered(
        webhook.id, holder, attempt, position=position, resets=resets
    )
    return replace(webhook, position=position, resets=resets) if is_ours else None


def _failed(
    delivering: Delivering,
    webhook: Webhook,
    holder: Holder,
    attempt: DeliveryAttempt,
    answer: DeliveryAnswer,
    error: NodeError,
) -> None:
    hooks = delivering.hooks
    state, not_before = after_failure(
        answer,
        failed_before=webhook.attempts,
        retry_s=delivering.retry_s,
        now=hooks.clock(),
        chance=hooks.random(1)[0] / CHANCES,
    )
    hooks.store.failed(
        webhook.id, holder, attempt, problem=_problem(error), state=state, not_before=not_before
    )
    _log.info("webhook %s: %s (%s)", webhook.id, error.message, state.value)


def _problem(error: NodeError) -> Problem:
    return Problem(error.code, error.message, dict(error.facts))


class Deliverer:
    """Runs a turn for each due webhook in a thread: at most `threads` at a time, and a quarter of
    them for one account."""

    def __init__(
        self, delivering: Delivering, *, threads: int, poll_s: float, is_shared: bool = True
    ) -> None:
        """`is_shared` is false if all webhooks are of one account."""
        self._delivering, self._threads, self._poll_s = delivering, threads, poll_s
        self._each = max(1, threads // SHARE) if is_shared else threads
        self._at_work: dict[str, tuple[AccountId, threading.Thread]] = {}
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._stop = threading.Event()

    def start(self) -> None:
        """Do nothing: turns start when somebody looks."""

    def look(self) -> float:
        """Start turns of due webhooks. Return the seconds until the next call."""
        hooks = self._delivering.hooks
        with self._looking:
            with self._lock:
                busy = Counter(account for account, _ in self._at_work.values())
            if busy.total() < self._threads:
                full = [account for account, count in busy.items() if count >= self._each]
                # An account with some threads may have more due webhooks than it may begin.
                for webhook in hooks.store.due(
                    now=hooks.clock(),
                    limit=self._threads,
                    each=self._each,
                    without=full,
                    failing=self._delivering.failing.now().values(),
                ):
                    if busy.total() < self._threads and busy[webhook.account] < self._each:
                        busy[webhook.account] += self._begin(webhook)
        return self._poll_s

    def stop(self) -> None:
        """Wait briefly for running deliveries; unfinished ones are repeated with the same id."""
        self._stop.set()
        until = time.monotonic() + STOP_S
        with self._lock:
            threads = [thread for _, thread in self._at_work.values()]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _begin(self, webhook: Webhook) -> bool:
        """Start a turn; return whether there was none yet."""
        thread = threading.Thread(
            target=self._turn, args=(webhook.id,), name=f"webhook-{webhook.id}", daemon=True
        )
        with self._lock:
            if webhook.id in self._at_work or self._stop.is_set():
                return False
            self._at_work[webhook.id] = webhook.account, thread
        thread.start()
        return True

    def _turn(self, webhook: str) -> None:
        try:
            take_turn(self._delivering, webhook, lambda: not self._stop.is_set())
        except Exception:  # the database is busy or restarts: the next turn may succeed
            _log.exception("webhook %s was not delivered", webhook)
        finally:
            with self._lock:
                del self._at_work[webhook]
        with suppress(Exception):  # else the next look finds what waits
            self.look()
