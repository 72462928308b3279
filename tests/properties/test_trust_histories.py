"""Random histories of a log of heads: honest ones raise no alarm, and each lie has its word.

`ODF_TRUST_HISTORIES=10000` runs more of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_protocol.trust.checkpoints import LogCheckpoint, LogProof, Policy
from odf_protocol.trust.heads import HeadKind, HeadRecord, logged_name, map_of, map_record
from odf_protocol.trust.judging import (
    HeadProof,
    Leaf,
    SeenLog,
    ShownMap,
    Verdict,
    Wanted,
    Word,
    judge,
)
from odf_protocol.trust.merkle import (
    consistency_path,
    inclusion_path,
    leaf_hash,
    nodes_of,
    tree_root,
)
from odf_protocol.trust.notes import Note, NoteKey, cosigned_line, encoded, note_line

HISTORIES = int(os.environ.get("ODF_TRUST_HISTORIES", "60"))
ORIGIN, LOG = "node.example", key_pair(b"\x01" * 32)
KEY = NoteKey(ORIGIN, LOG.public)
WITNESSES = {f"w{n}": key_pair(bytes([9, n]) * 16) for n in range(2)}
_VKEYS = {name: str(NoteKey(name, key.public)) for name, key in WITNESSES.items()}
POLICY = Policy.parse(
    "".join(f"witness {name} {vkey}\n" for name, vkey in _VKEYS.items()).encode()
    + b"group both all w0 w1\nquorum both\n"
)
START_S, MAP_S, FRESH_S = 1_800_000_000, 300, 600
SALT = bytes(16)


@dataclass
class Log:
    """A log in memory, with what it takes to lie."""

    entries: list[bytes] = field(default_factory=list)
    heads: dict[DatasetId, list[tuple[int, Multihash]]] = field(default_factory=dict)
    maps: list[tuple[int, list[DatasetId], list[bytes]]] = field(default_factory=list)
    now_s: int = START_S
    mapped_s: int = 0

    def copy(self) -> Log:
        heads = {dataset: list(moves) for dataset, moves in self.heads.items()}
        return Log(list(self.entries), heads, list(self.maps), self.now_s, self.mapped_s)

    def move(self, dataset: DatasetId, kind: HeadKind, block: Multihash) -> None:
        at = Instant(self.now_s * NANOS)
        name = logged_name(dataset, SALT if dataset.key[0] & 1 else None)
        record = HeadRecord(name, kind, len(self.entries), block, at)
        self.heads.setdefault(dataset, []).append((len(self.entries), block))
        self.entries.append(record.entry)
        if self.now_s - self.mapped_s >= MAP_S:
            datasets = sorted(self.heads, key=lambda each: each.key)
            records = [self.entries[self.heads[each][-1][0]] for each in datasets]
            self.maps.append((len(self.entries), datasets, records))
            self.entries.append(map_record(records, at).entry)
            self.mapped_s = self.now_s

    def upto(self, size: int) -> Log:
        """Return the log as it was."""
        heads = {
            dataset: kept
            for dataset, moves in self.heads.items()
            if (kept := [move for move in moves if move[0] < size])
        }
        maps = [one for one in self.maps if one[0] < size]
        return Log(self.entries[:size], heads, maps, self.now_s, self.mapped_s)

    @property
    def hashes(self) -> list[bytes]:
        return [leaf_hash(entry) for entry in self.entries]

    @property
    def checkpoint(self) -> LogCheckpoint:
        size = len(self.entries)
        return LogCheckpoint(ORIGIN, size, tree_root(size, nodes_of(self.hashes)))

    def note(self, witnesses: Sequence[str] = (), stamp: int = 0) -> Note:
        text = self.checkpoint.text
        lines = [note_line(text, ORIGIN, LOG)]
        lines += [cosigned_line(text, name, WITNESSES[name], stamp) for name in witnesses]
        return Note(text, tuple(lines))

    def shown(
        self, dataset: DatasetId, note: Note | None = None, move: int = -1
    ) -> tuple[Multihash, HeadProof]:
        size, nodes = len(self.entries), nodes_of(self.hashes)
        index, block = self.heads[dataset][move]
        leaf, datasets, records = self.maps[-1]
        proof = LogProof(index, tuple(inclusion_path(index, size, nodes)), note or self.note())

        def at(number: int) -> dict[str, object]:
            path = tuple(map(encoded, inclusion_path(number, size, nodes)))
            return {"leaf": self.entries[number].decode(), "index": number, "path": path}

        within: dict[str, object] = {}
        if dataset in datasets:
            place = datasets.index(dataset)
            inside = inclusion_path(place, len(records), map_of(records)[1])
            within = {
                "record": records[place].decode(),
                "record_index": place,
                "record_path": tuple(map(encoded, inside)),
            }
        return block, HeadProof(
            leaf=self.entries[index].decode(),
            proof=str(proof),
            salt=encoded(SALT),
            last=Leaf(**at(size - 1)),
            map=ShownMap(**at(leaf), **within),
        )

    def between(self, old: int, size: int) -> list[bytes]:
        return consistency_path(old, size, nodes_of(self.hashes))


DATASETS = [DatasetId(bytes([n]) * 32) for n in range(4)]


def grown(chance: random.Random, log: Log, moves: int) -> Log:
    for _ in range(moves):
        log.now_s += chance.choice((1, 60, 301))
        kind = chance.choice((HeadKind.COMMIT, HeadKind.RESET, HeadKind.COMPACTION))
        log.move(chance.choice(DATASETS), kind, Multihash.of(chance.randbytes(8)))
    return log


def asked(
    log: Log,
    dataset: DatasetId,
    *,
    seen: Note | None = None,
    wanted: Wanted = Wanted(),
    note: Note | None = None,
    move: int = -1,
    head: Multihash | None = None,
    now_s: int | None = None,
) -> Verdict:
    block, shown = log.shown(dataset, note, move)
    return judge(
        dataset,
        head or block,
        shown,
        SeenLog(key=KEY, note=seen),
        wanted,
        between=log.between,
        now_s=log.now_s if now_s is None else now_s,
    )


def test_honest_histories_raise_no_alarm():
    for seed in range(HISTORIES):
        _honest(random.Random(seed))


def _honest(chance: random.Random) -> None:
    log, seen = Log(), None
    for _ in range(4):
        grown(chance, log, chance.randint(1, 12))
        dataset = chance.choice(sorted(log.heads, key=str))
        assert asked(log, dataset, seen=seen).word is Word.UNWITNESSED
        note = log.note(["w0", "w1"], log.now_s - 5)
        wanted = Wanted(policy=POLICY, fresh_s=FRESH_S)
        verdict = asked(log, dataset, seen=seen, wanted=wanted, note=note)
        assert verdict.word is Word.CONFIRMED, verdict.why
        seen = verdict.note


def _older_head(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """The head before the newest one, with its own leaf, although a map has the newer one."""
    dataset = chance.choice(DATASETS)
    for text in (b"old", b"new"):
        log.now_s += MAP_S
        log.move(dataset, HeadKind.COMMIT, Multihash.of(text))
    return log, {"dataset": dataset, "move": -2}


def _older_log(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """The whole log as it was before."""
    size = chance.choice([one[0] + 1 for one in log.maps if one[0] + 1 < len(log.entries)])
    return log.upto(size), {}


def _fork(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """Another end of the log, at least as long."""
    size = chance.choice([one[0] + 1 for one in log.maps if one[0] + 1 < len(log.entries)])
    return grown(chance, log.upto(size), len(log.entries)), {}


def _resigned_map(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """A map that has another record of a dataset, in the place of the one that was signed."""
    leaf, datasets, records = log.maps[-1]
    forged = [*records[:-1], records[-1].replace(b"\nf16", b"\nf16", 1) + b""]
    forged[-1] = log.entries[0] if records[-1] != log.entries[0] else log.entries[2]
    log.entries[leaf] = map_record(forged, Instant(log.now_s * NANOS)).entry
    log.maps[-1] = (leaf, datasets, forged)
    return log, {}


def _deleted_leaf(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """The log without one of its leaves, and something in its place at the end."""
    del log.entries[0]
    lost = Log(log.entries, {}, [], log.now_s, 0)
    for dataset in DATASETS:
        lost.now_s += MAP_S
        lost.move(dataset, HeadKind.COMMIT, Multihash.of(dataset.key))
    return lost, {}


def _hidden(chance: random.Random, log: Log) -> tuple[Log, dict[str, object]]:
    """A head that the log does not have."""
    return log, {"head": Multihash.of(chance.randbytes(4))}


Lie = Callable[[random.Random, Log], tuple[Log, dict[str, object]]]
LIES: dict[str, tuple[Lie, dict[str, set[Word]]]] = {
    "an older head": (
        _older_head,
        {"earlier": {Word.ROLLED_BACK}, "newcomer": {Word.ROLLED_BACK}},
    ),
    "an older log": (
        _older_log,
        {
            "earlier": {Word.ROLLED_BACK},
            "fresh": {Word.STALE},
            "witnesses": {Word.UNWITNESSED, Word.STALE},
        },
    ),
    "a fork": (_fork, {"earlier": {Word.SPLIT_VIEW}, "witnesses": {Word.UNWITNESSED}}),
    "another map": (
        _resigned_map,
        {
            "earlier": {Word.SPLIT_VIEW},
            # unlogged, an alarm too, to who asks for the dataset that the map lacks
            "witnesses": {Word.UNWITNESSED, Word.ROLLED_BACK, Word.UNLOGGED},
        },
    ),
    "a deleted leaf": (
        _deleted_leaf,
        {"earlier": {Word.SPLIT_VIEW}, "witnesses": {Word.UNWITNESSED}},
    ),
    "a hidden move": (
        _hidden,
        {"earlier": {Word.UNLOGGED}, "newcomer": {Word.UNLOGGED}},
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_named_by_those_who_can(lie: str):
    for seed in range(max(1, HISTORIES // len(LIES))):
        _named(random.Random(f"{seed} {lie}"), lie)


def _named(chance: random.Random, lie: str) -> None:
    log = grown(chance, Log(), chance.randint(6, 20))
    for dataset in DATASETS:  # every dataset is there, and so are two maps
        log.now_s += MAP_S
        log.move(dataset, HeadKind.COMMIT, Multihash.of(dataset.key))
    make, words = LIES[lie]
    honest = log.copy()
    lying, told = make(chance, log)
    if lie == "an older head":  # the head moved honestly: the client saw it
        honest = lying.copy()
    told.setdefault("dataset", chance.choice(sorted(lying.heads, key=str)))
    clients = {
        "earlier": {"seen": honest.note()},
        "newcomer": {},
        "fresh": {
            "wanted": Wanted(fresh_s=FRESH_S),
            "now_s": honest.now_s + FRESH_S + 1,
        },
        "witnesses": {"wanted": Wanted(policy=POLICY, fresh_s=FRESH_S)},
    }
    for client, expected in words.items():
        given = {**clients[client], **told}
        verdict = asked(lying, **given)
        assert verdict.word in expected, (client, verdict.word, verdict.why)


def test_a_frozen_log_is_stale_to_those_who_ask_for_news():
    log = grown(random.Random(1), Log(), 9)
    dataset, now_s = next(iter(log.heads)), log.now_s + FRESH_S + 1
    assert asked(log, dataset, now_s=now_s).word is Word.UNWITNESSED
    fresh = Wanted(fresh_s=FRESH_S)
    assert asked(log, dataset, wanted=fresh, now_s=now_s).word is Word.STALE
    witnessed = Wanted(policy=POLICY, fresh_s=FRESH_S)
    early = log.note(["w0", "w1"], log.now_s)
    assert asked(log, dataset, wanted=witnessed, note=early, now_s=now_s).word is Word.STALE
    late = log.note(["w0", "w1"], now_s)
    assert asked(log, dataset, wanted=witnessed, note=late, now_s=now_s).word is Word.CONFIRMED


def test_a_map_from_long_ago_is_not_the_newest_of_a_log_that_went_on():
    log = grown(random.Random(2), Log(), 9)
    dataset, old = next(iter(log.heads)), log.maps[-1]
    for _ in range(20):
        log.now_s += MAP_S
        log.move(DATASETS[-1], HeadKind.COMMIT, Multihash.of(b"x"))
    log.maps[-1] = old
    verdict = asked(log, dataset)
    assert verdict.word is Word.ROLLED_BACK
    assert "went on" in verdict.why
