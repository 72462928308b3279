"""What a log of damaged objects promises. Subclasses give `stores`."""

from __future__ import annotations

from chain_maker import NOON
from tests.conformance.access_stores import dataset

from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.damages import Damage
from odf_storage.stores.ports.values import ObjectKey, ObjectKind


def later(seconds: int) -> Instant:
    return Instant(NOON.ns + seconds * NANOS)


def damage(stores: Stores, name: bytes = b"a", *, at: Instant = NOON) -> Damage:
    key = ObjectKey(dataset(stores), ObjectKind.DATA, Multihash.of(name))
    return Damage(key=key, found_at=at, reason="damaged", next_at=at)


class DamageLogContract:
    def test_damage_is_news_once_until_it_is_healed(self, stores: Stores) -> None:
        made, log = damage(stores), stores.damages
        assert log.note(made)
        assert not log.note(made)
        assert log.find(made.key) == made
        assert (log.count(), list(log.open())) == (1, [made])
        assert log.healed(made.key, at=later(5), source="copy")
        assert not log.healed(made.key, at=later(6), source="copy")
        assert (log.count(), list(log.open())) == (0, [])
        found = log.find(made.key)
        assert found is not None
        assert (found.healed_at, found.healed_from, found.is_open) == (later(5), "copy", False)
        assert log.note(made)
        assert log.find(made.key) == made

    def test_tries_are_counted_and_hopes_given_up(self, stores: Stores) -> None:
        made, log = damage(stores), stores.damages
        log.note(made)
        log.tried(made.key, next_at=later(10))
        log.tried(made.key, next_at=later(20), hopeless="nobody has it")
        found = log.find(made.key)
        assert found is not None
        assert (found.tries, found.next_at, found.hopeless) == (2, later(20), "nobody has it")

    def test_what_was_given_up_may_be_hastened_unless_it_is_healed(self, stores: Stores) -> None:
        made, log = damage(stores), stores.damages
        log.note(made)
        log.tried(made.key, next_at=later(86_400), hopeless="an input is lost")
        log.hasten(at=later(5))
        found = log.find(made.key)
        assert found is not None
        assert (found.tries, found.next_at, found.hopeless) == (1, later(5), None)
        log.healed(made.key, at=later(6), source="copy")
        log.hasten(at=later(7))
        found = log.find(made.key)
        assert found is not None
        assert found.next_at == later(5)

    def test_the_longest_known_come_first_and_no_more_than_asked_for(self, stores: Stores) -> None:
        key = dataset(stores)
        made = [
            Damage(
                key=ObjectKey(key, ObjectKind.CHECKPOINT, Multihash.of(bytes([number]))),
                found_at=later(-number),
                reason="missing",
                next_at=NOON,
            )
            for number in range(3)
        ]
        for each in made:
            stores.damages.note(each)
        assert list(stores.damages.open(limit=2)) == [made[2], made[1]]

    def test_what_is_not_noted_does_not_change(self, stores: Stores) -> None:
        key = damage(stores).key
        stores.damages.tried(key, next_at=NOON)
        assert not stores.damages.healed(key, at=NOON, source="copy")
        assert stores.damages.find(key) is None

    def test_what_was_healed_long_ago_is_forgotten(self, stores: Stores) -> None:
        made = damage(stores)
        stores.damages.note(made)
        assert stores.damages.prune(before=later(100)) == 0
        stores.damages.healed(made.key, at=later(5), source="copy")
        assert stores.damages.prune(before=later(5)) == 0
        assert stores.damages.prune(before=later(6)) == 1
        assert stores.damages.find(made.key) is None
