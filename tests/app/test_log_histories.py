"""Honest histories of a node's log, in its database: no client ever sees a reason for an alarm.

Two services sign in turns, and die at any statement; heads are committed, reset, compacted and
deleted; backups of the database are restored. Each database has ten seconds of histories, or
`ODF_TRUST_HISTORIES` of them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from backends import new_database
from chain_maker import NOON, chain, entry, infos, linked

from odf_node.service.query.proofs import SigningKeys
from odf_node.service.trust.log import FOLDER, NEWEST, LogKeeper, lost_checkpoint
from odf_protocol.errors import Conflict
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.trust.checkpoints import LogCheckpoint
from odf_protocol.trust.judging import HeadProof, SeenLog, Wanted, Word, judge
from odf_protocol.trust.merkle import consistency_path
from odf_protocol.trust.notes import Note, NoteKey
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import DatasetEntry, Visibility
from odf_storage.stores.sql.engine import sqlite_url
from odf_storage.stores.sql.tables import metadata

HISTORIES, SECONDS = int(os.environ.get("ODF_TRUST_HISTORIES", "0")), 10.0
KEYS, ORIGIN = SigningKeys(b"\x01" * 32), "odf.example"
KEY = NoteKey(ORIGIN, KEYS.active.public)
NAMES = [f"kamu/d{number}" for number in range(3)]
Backup = list[tuple[sa.Table, list[dict[str, object]]]]


class KilledError(Exception):
    """The service is gone."""


@dataclass
class Time:
    """The clock of the services and of their database."""

    now_s: int = NOON.ns // NANOS

    def __call__(self) -> Instant:
        return Instant(self.now_s * NANOS)


@dataclass
class Deaths:
    """Ends a service at its `left`-th statement from now on, or before it commits."""

    left: int | None = None

    def step(self, *_: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise KilledError

    @contextmanager
    def within(self, statements: int | None) -> Iterator[None]:
        self.left = statements
        try:
            with suppress(KilledError):
                yield
        finally:
            self.left = None


@dataclass
class History:
    """A node with two services, and clients who remember what they saw."""

    stores: Stores
    chance: random.Random
    deaths: Deaths
    clock: Time
    heads: dict[str, list[HashedBlock]] = field(default_factory=dict)
    clients: list[Note | None] = field(default_factory=lambda: [None] * 3)
    backup: tuple[Backup, dict[str, list[HashedBlock]]] | None = None

    @property
    def service(self) -> LogKeeper:
        """One of them, just started."""
        return LogKeeper(
            stores=self.stores,
            keys=KEYS,
            salts=b"salts",
            public_url=f"https://{ORIGIN}",
            map_s=300,
            path="../log",
            clock=self.clock,
        )

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.now_s += self.chance.choice((0, 1, 60, 301))
            kill = self.chance.choice((None, None, self.chance.randrange(14)))
            what: Callable[[], None] = self.chance.choices(
                (self.move, self.sign, self.look, self.keep, self.restore), (8, 4, 6, 1, 1)
            )[0]
            with self.deaths.within(kill if what in (self.move, self.sign) else None):
                what()
        self.look()

    def move(self) -> None:
        """Create a dataset, commit, reset, compact or delete it; by a kill nothing happens."""
        name = self.chance.choice(NAMES)
        known, moved = self.heads.get(name), entry(name)
        if known is None:
            visibility = self.chance.choice(list(Visibility))
            made = DatasetEntry(moved.id, moved.alias, moved.kind, visibility, self.clock())
            blocks, _ = chain(moved.id)
            self.stores.registry.create(made, blocks=blocks)
            self.heads[name] = blocks
            return
        how, head = self.chance.randrange(8), known[-1]
        if how == 0:
            self.stores.registry.forget(moved.id)
            del self.heads[name]
            return
        if how == 1 and len(known) > 1:
            after = known[: self.chance.randrange(1, len(known))]
            new = []
        else:
            kept = known[:1] if how == 2 else known
            new = [linked(kept[-1], infos(self.chance.randbytes(4).hex())[0])]
            after = [*kept, *new]
        self.stores.refs.move(moved.id, expected=head.hash, new=after[-1].hash, blocks=new)
        self.heads[name] = after

    def sign(self) -> None:
        """One of the services signs what is new, or says that it must not."""
        service = self.service
        try:
            service.begin()
            service.bring_up()
        except Conflict:
            lost = lost_checkpoint(self.stores)
            if lost is None:
                raise
            self.stores.head_log.accept_gap(lost.size, lost.root)

    def look(self) -> None:
        """A client, who has been here before or not, checks a head."""
        if not self.heads:
            return
        its = entry(self.chance.choice(sorted(self.heads)))
        while lost_checkpoint(self.stores) is not None:
            self.sign()
        text = self.service.proof_text(its)
        number, log = self.chance.randrange(len(self.clients)), self.stores.head_log
        verdict = judge(
            its.id,
            self.stores.refs.head(its.id),
            msgspec.json.decode(text, type=HeadProof),
            SeenLog(key=KEY, note=self.clients[number]),
            Wanted(),
            between=lambda old, new: consistency_path(old, new, log.nodes(new)),
            now_s=self.clock.now_s,
        )
        assert verdict.word is Word.UNWITNESSED, verdict.why
        self.clients[number] = self.chance.choice((verdict.note, verdict.note, None))

    def keep(self) -> None:
        with self.stores.engine.connect() as db:
            tables = [
                (table, [dict(row) for row in db.execute(sa.select(table)).mappings()])
                for table in metadata.sorted_tables
            ]
        self.backup = (tables, dict(self.heads))

    def restore(self) -> None:
        """Go back to the backup. Clients who saw more than it has forget the log, as they must."""
        if self.backup is None:
            return
        _empty(self.stores)
        tables, self.heads = self.backup[0], dict(self.backup[1])
        with self.stores.engine.begin() as db:
            for table, rows in tables:
                if rows:
                    db.execute(table.insert(), rows)
        state = self.stores.head_log.state()
        has = 0 if state is None else state.size
        self.clients = [
            seen if seen is not None and LogCheckpoint.parse(seen.text).size <= has else None
            for seen in self.clients
        ]


def _empty(stores: Stores) -> None:
    with stores.engine.begin() as db:
        for table in reversed(metadata.sorted_tables):
            db.execute(table.delete())


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: Time) -> Iterator[Stores]:
    url = sqlite_url(tmp_path / "log.db")
    if request.param == "postgres":
        url = new_database(request.getfixturevalue("postgres_url"))
    settings = StoreSettings(data=tmp_path / "node", database_url=url, durable=False)
    opened = open_stores(settings, repair=False, clock=clock)
    yield opened
    opened.close()


def test_honest_histories_of_a_node_raise_no_alarm(stores: Stores, clock: Time) -> None:
    deaths, played, until = Deaths(), 0, time.monotonic() + SECONDS
    sa.event.listen(stores.engine, "before_cursor_execute", deaths.step)
    sa.event.listen(stores.engine, "commit", deaths.step)
    while played < HISTORIES if HISTORIES else time.monotonic() < until or not played:
        _empty(stores)
        stores.projections.delete([f"{FOLDER}/{NEWEST}"])
        try:
            History(stores, random.Random(played), deaths, clock).play(steps=30)
        except Exception as error:
            error.add_note(f"history {played}")
            raise
        played += 1
    print(f"{played} histories on {stores.engine.dialect.name}")
