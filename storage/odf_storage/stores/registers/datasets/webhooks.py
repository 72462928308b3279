"""Webhooks in a SQL database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...objects.layout import HEAD
from ...ports.errors import DatasetNotFound
from ...ports.following import Problem
from ...ports.values import AccountId, Failing, JobId
from ...ports.webhooks import DeliveryAttempt, Webhook, WebhookState
from ...sql.engine import reading, writing
from ...sql.tables import (
    KEY_CHARS,
    HashColumn,
    InstantColumn,
    NumberColumn,
    datasets,
    metadata,
    of_dataset,
    refs,
)

MAX_URL_CHARS = 2048
MESSAGE_CHARS = 300

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    of_dataset(is_key=False, index=True),
    sa.Column(
        "account",
        sa.String(KEY_CHARS),
        sa.ForeignKey("accounts.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("url", sa.String(MAX_URL_CHARS), nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("position", HashColumn),
    sa.Column("resets", sa.Integer, nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("not_before", InstantColumn),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("failing_since", InstantColumn),
    sa.Column("problem", sa.JSON(none_as_null=True)),
    sa.Column("holder", sa.String(KEY_CHARS)),
    sa.Column("leased_until", InstantColumn),
    sa.Column("failing_told", sa.String(KEY_CHARS)),
)

webhook_attempts = sa.Table(
    "webhook_attempts",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    sa.Column(
        "webhook",
        sa.String(KEY_CHARS),
        sa.ForeignKey("webhooks.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("at", InstantColumn, nullable=False),
    sa.Column("message", sa.String(MESSAGE_CHARS), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("error", sa.String(KEY_CHARS)),
    sa.Column("took_ms", sa.Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""The newest attempts of each webhook; `status` is the HTTP status of the response."""


KEPT_ATTEMPTS = 100
_C, _A = webhooks.c, webhook_attempts.c
_ITS_HEAD = sa.and_(refs.c.dataset == _C.dataset, refs.c.name == HEAD)
_FREE: dict[str, Any] = {"holder": None, "leased_until": None}
_WELL: dict[str, Any] = {
    "attempts": 0,
    "failing_since": None,
    "problem": None,
    "not_before": None,
}


class WebhookStore:
    """Webhooks, their recent attempts, and leases: while one lasts, only one process delivers.

    Webhooks are removed with their dataset or account at the latest. `holder` names a lease. If a
    holder has lost its lease to another process or to a restart, its calls change nothing and
    return False.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, webhook: str) -> Webhook | None:
        return next(iter(self._all(_C.id == webhook)), None)

    def of_account(self, dataset: DatasetId, account: AccountId) -> Sequence[Webhook]:
        """Return the account's webhooks for the dataset, oldest first."""
        return self._all(_C.dataset == dataset, _C.account == account)

    def all(self) -> Sequence[Webhook]:
        return self._all()

    def attempts(self, webhook: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """Return attempts, newest first."""
        newest = sa.select(webhook_attempts).where(_A.webhook == webhook)
        with reading(self._engine) as db:
            rows = db.execute(newest.order_by(_A.number.desc()).limit(limit)).mappings()
            return [_attempt(row) for row in rows]

    def _all(self, *where: sa.ColumnElement[bool]) -> list[Webhook]:
        query = sa.select(webhooks).where(*where).order_by(_C.created_at, _C.id)
        with reading(self._engine) as db:
            return [_webhook(row) for row in db.execute(query).mappings()]

    def add(self, webhook: Webhook, *, most: int) -> bool:
        """Add a webhook. Return False, without adding, if the account has `most` for the dataset.

        Raises:
            DatasetNotFound.
        """
        mine = (_C.dataset == webhook.dataset, _C.account == webhook.account)
        problem = None if webhook.problem is None else asdict(webhook.problem)
        row = {each.name: getattr(webhook, each.name) for each in fields(webhook)}
        known = sa.select(datasets.c.id).where(datasets.c.id == webhook.dataset)
        with writing(self._engine) as db:
            if db.execute(known.with_for_update()).one_or_none() is None:
                raise DatasetNotFound(webhook.dataset)
            if db.execute(sa.select(sa.func.count()).where(*mine)).scalar_one() >= most:
                return False
            db.execute(
                sa.insert(webhooks).values(
                    **{**row, "problem": problem, "state": webhook.state.value}
                )
            )
        return True

    def remove(self, webhook: str) -> None:
        """Remove the webhook, if there is one."""
        with writing(self._engine) as db:
            db.execute(sa.delete(webhooks).where(_C.id == webhook))

    def reseal(self, webhook: str, sealed_secret: bytes) -> None:
        """Replace the webhook's secrets and nothing else."""
        change = sa.update(webhooks).where(_C.id == webhook)
        with writing(self._engine) as db:
            db.execute(change.values(sealed_secret=sealed_secret))

    def restart(self, webhook: str, *, position: Multihash | None) -> None:
        """Make the webhook active again and deliver what follows `position`. A delivery in
        progress no longer moves the position."""
        change = {**_FREE, **_WELL, "position": position, "state": WebhookState.ACTIVE.value}
        with writing(self._engine) as db:
            db.execute(sa.update(webhooks).where(_C.id == webhook).values(**change))

    def due(
        self,
        *,
        now: Instant,
        limit: int,
        each: int | None = None,
        without: Collection[AccountId] = (),
        failing: Collection[Failing] = (),
    ) -> Sequence[Webhook]:
        """Return active, unleased webhooks that do not know the head of their dataset yet, or that
        it is among those whose polls are `failing`: those first whose last attempt is longest ago,
        `each` of an account at most, and none of the accounts `without`."""
        last = sa.select(sa.func.max(_A.number)).where(_A.webhook == _C.id).scalar_subquery()
        waiting = (
            sa.select(_C.id, _C.account, sa.func.coalesce(last, 0).label("last"))
            .join(refs, _ITS_HEAD)
            .where(
                sa.or_(_C.position.is_distinct_from(refs.c.hash), _is_untold(failing)),
                _is_deliverable(now),
                sa.or_(_C.leased_until.is_(None), _C.leased_until <= now),
                _C.account.not_in(without),
            )
            .subquery()
        )
        order = (waiting.c.last, waiting.c.id)
        rank = sa.func.row_number().over(partition_by=waiting.c.account, order_by=order)
        ranked = sa.select(waiting, rank.label("rank")).subquery()
        query = (
            sa.select(webhooks)
            .join(ranked, ranked.c.id == _C.id)
            .where(sa.true() if each is None else ranked.c.rank <= each)
            .order_by(ranked.c.last, ranked.c.id)
            .limit(limit)
        )
        with reading(self._engine) as db:
            return [_webhook(row) for row in db.execute(query).mappings()]

    def lease(self, webhook: str, holder: str, *, now: Instant, until: Instant) -> Webhook | None:
        """Take or extend the lease. None if another has it, or if nothing is to be delivered."""
        is_free = sa.or_(_C.leased_until.is_(None), _C.leased_until <= now, _C.holder == holder)
        where = (_C.id == webhook, _is_deliverable(now), is_free)
        with writing(self._engine) as db:
            change = sa.update(webhooks).where(*where)
            if not db.execute(change.values(holder=holder, leased_until=until)).rowcount:
                return None
            row = db.execute(sa.select(webhooks).where(_C.id == webhook)).mappings().one()
            return _webhook(row)

    def delivered(
        self,
        webhook: str,
        holder: str,
        attempt: DeliveryAttempt,
        *,
        position: Multihash,
        resets: int,
    ) -> bool:
        """Record a success: set the position, clear failures and add the attempt, atomically."""
        change = {**_WELL, "position": position, "resets": resets}
        return self._settle(webhook, holder, attempt, change)

    def told_failing(
        self, webhook: str, holder: str, attempt: DeliveryAttempt, *, first: JobId
    ) -> bool:
        """Record a success as `delivered` does, but of the news that polls fail since `first`."""
        return self._settle(webhook, holder, attempt, {**_WELL, "failing_told": first})

    def failed(
        self,
        webhook: str,
        holder: str,
        attempt: DeliveryAttempt | None,
        *,
        problem: Problem,
        state: WebhookState,
        not_before: Instant | None,
    ) -> bool:
        """Record one more consecutive failure; end the lease. No `attempt`: nothing was sent."""
        change: dict[str, Any] = {
            **_FREE,
            "problem": asdict(problem),
            "state": state.value,
            "not_before": not_before,
            "attempts": _C.attempts + 1,
        }
        if attempt is not None:
            since = sa.literal(attempt.at, _C.failing_since.type)
            change["failing_since"] = sa.func.coalesce(_C.failing_since, since)
        return self._settle(webhook, holder, attempt, change)

    def release(self, webhook: str, holder: str) -> None:
        self._settle(webhook, holder, None, _FREE)

    def note(self, webhook: str, attempt: DeliveryAttempt) -> None:
        """Record an attempt that is no delivery. The newest hundred per webhook are kept."""
        with writing(self._engine) as db:
            known = sa.select(_C.id).where(_C.id == webhook).with_for_update()
            if db.execute(known).one_or_none() is not None:
                _keep(db, webhook, attempt)

    def _settle(
        self, webhook: str, holder: str, attempt: DeliveryAttempt | None, change: dict[str, Any]
    ) -> bool:
        held = (_C.id == webhook, _C.holder == holder)
        with writing(self._engine) as db:
            if not db.execute(sa.update(webhooks).where(*held).values(**change)).rowcount:
                return False
            if attempt is not None:
                _keep(db, webhook, attempt)
        return True


def _is_untold(failing: Collection[Failing]) -> sa.ColumnElement[bool]:
    """Whether the receiver was not told yet that the polls of the dataset fail."""
    told = _C.failing_told.in_([each.first for each in failing])  # a job is of one dataset
    is_told = sa.and_(_C.failing_told.is_not(None), told)
    return sa.and_(_C.dataset.in_([each.dataset for each in failing]), sa.not_(is_told))


def _is_deliverable(now: Instant) -> sa.ColumnElement[bool]:
    is_time = sa.or_(_C.not_before.is_(None), _C.not_before <= now)
    return sa.and_(_C.state == WebhookState.ACTIVE.value, is_time)


def _keep(db: sa.Connection, webhook: str, attempt: DeliveryAttempt) -> None:
    """Add an attempt, and delete the oldest ones above the limit."""
    db.execute(sa.insert(webhook_attempts).values(webhook=webhook, **asdict(attempt)))
    mine = sa.select(_A.number).where(_A.webhook == webhook).order_by(_A.number.desc())
    oldest = db.execute(mine.offset(KEPT_ATTEMPTS).limit(1)).scalar_one_or_none()
    if oldest is not None:
        old = (_A.webhook == webhook, _A.number <= oldest)
        db.execute(sa.delete(webhook_attempts).where(*old))


def _webhook(row: sa.RowMapping) -> Webhook:
    known = {each.name: row[each.name] for each in fields(Webhook)}
    problem = row["problem"]
    given = {
        "account": AccountId(row["account"]),
        "sealed_secret": bytes(row["sealed_secret"]),
        "state": WebhookState(row["state"]),
        "problem": None if problem is None else Problem(**problem),
    }
    return Webhook(**{**known, **given})


def _attempt(row: sa.RowMapping) -> DeliveryAttempt:
    return DeliveryAttempt(**{each.name: row[each.name] for each in fields(DeliveryAttempt)})
