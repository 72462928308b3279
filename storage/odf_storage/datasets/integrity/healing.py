"""Healing of an object that does not match its hash: quarantine, reporting, and restoring it.

Sources at hand are the index, which has every block, and the copies that an administrator names.
Slower sources need a job: a replay makes a derivative's slice or checkpoint again; an object of a
mirror is fetched from its remote. The object store hashes all bytes it gets, from any source.

Errors that a reader gets for an object that is damaged or missing.

The hash of a stream.

Identities of objects, which show without a read whether an object changed since its hash.

A cache of objects that were hashed recently and whose identity has not changed since.

Bit rot changes neither the time of a file nor an ETag, so entries expire after some time, and the
next reader hashes again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from odf_protocol.errors import Damaged, NodeError, Unavailable
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import SHA3_256, Multihash

from ...runtime.clock import Clock
from ...runtime.locks import Locks
from ...runtime.logs import line
from ...stores.objects.layout import store_name
from ...stores.ports import BlockIndex, Objects, ObjectStore
from ...stores.ports.accounts import AuditEntry
from ...stores.ports.damages import Damage
from ...stores.ports.errors import ObjectNotFound
from ...stores.ports.values import ObjectKey, ObjectKind
from ..job_payloads import heal_job

if TYPE_CHECKING:
    from ...stores.index.sql import DatasetEntries
    from ...stores.jobs.sql import JobQueue
    from ...stores.registers.accounts.audit import AuditLog
    from ...stores.registers.datasets.damages import DamageLog
    from ...stores.registers.datasets.following import MirrorStore


class ObjectDamaged(Damaged):
    """A stored object does not match its hash, and no source at hand has the right bytes."""

    def __init__(self, key: ObjectKey, problem: str, why: str | None = None) -> None:
        hope = f"; it cannot be made again: {why}" if why else ""
        super().__init__(
            f"the {key.kind} object {key.hash} is {problem} on this node{hope}. "
            "A PUT of the right bytes heals it; until then nothing is made of it",
            dataset_id=str(key.dataset),
            kind=str(key.kind),
            hash=str(key.hash),
            problem=problem,
        )
        self.key = key


class ObjectHealing(Unavailable):
    """A stored object does not match its hash, and a job is making or fetching it again."""

    def __init__(self, key: ObjectKey, problem: str) -> None:
        super().__init__(
            f"the {key.kind} object {key.hash} is {problem} on this node and is being healed; "
            "try again soon",
            dataset_id=str(key.dataset),
            kind=str(key.kind),
            hash=str(key.hash),
            problem=problem,
        )
        self.key = key


READ_BYTES = 1 << 20


def hash_of_stream(stream: BinaryIO, keep: Callable[[bytes], object] = lambda _: None) -> Multihash:
    """Return the hash of the rest of the stream. `keep` is called with each piece."""
    state = hashlib.sha3_256()
    while piece := stream.read(READ_BYTES):
        state.update(piece)
        keep(piece)
    return Multihash(SHA3_256, state.digest())


Identity = tuple[object, ...]
"""For a file: device, inode, size and time of modification; in a bucket: key and ETag."""


def identity_of(stream: BinaryIO) -> Identity | None:
    """Return the identity of an opened object; None if it has none, such as bytes in memory."""
    if is_remote(stream):
        found: Identity | None = stream.raw.identity  # type: ignore[attr-defined]
        return found
    try:
        return identity_of_file(os.fstat(stream.fileno()))
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return None


def identity_of_file(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_remote(stream: Any) -> bool:
    """Return whether every repeated read of a byte uses the network again."""
    return hasattr(getattr(stream, "raw", None), "identity")


REHASH_S = 3600.0
"""Default lifetime of an entry in seconds."""
MOST = 1 << 16
"""Limit of objects in the cache; newer ones replace the oldest. They take some 20 MB."""


class Hashed:
    """A cache of one process; safe to use from several threads."""

    def __init__(
        self,
        *,
        seconds: float = REHASH_S,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._known: dict[tuple[str, Identity], float] = {}
        self._lock = threading.Lock()

    def knows(self, name: str | Multihash, identity: Identity | None) -> bool:
        """Return whether bytes of this identity recently hashed to `name`."""
        if identity is None:
            return False
        until = self._known.get((str(name), identity))
        return until is not None and self._clock() < until

    def note(self, name: str | Multihash, identity: Identity | None) -> None:
        """Record that bytes of this identity hash to `name`."""
        if identity is None or self._seconds <= 0:
            return
        with self._lock:
            self._known.pop(key := (str(name), identity), None)
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[key] = self._clock() + self._seconds

    def clear(self) -> None:
        """Forget everything: work begins that has to hash everything anew."""
        with self._lock:
            self._known.clear()


DAMAGED, MISSING = "damaged", "missing"
PIECE_BYTES = 1 << 20
FIRST_PAUSE_S, PAUSE_GROWTH, LONGEST_PAUSE_S = 10, 4, 86_400
HOPEFUL_TRIES = 4
"""After this number of tries, readers get the error "damaged" instead of "healing"."""
LOOKS = 5
"""Number of times that an object which changes while it is hashed is hashed again."""
BY = "node"
_log = logging.getLogger("odf.integrity")


class HealingStores(Protocol):
    """The stores that healing needs: part of `storage.datasets.node.stores.Stores`."""

    @property
    def objects(self) -> ObjectStore: ...
    @property
    def registry(self) -> DatasetEntries: ...
    @property
    def blocks(self) -> BlockIndex: ...
    @property
    def jobs(self) -> JobQueue: ...
    @property
    def mirrors(self) -> MirrorStore: ...
    @property
    def audit(self) -> AuditLog: ...
    @property
    def locks(self) -> Locks: ...
    @property
    def hashed(self) -> Hashed: ...
    @property
    def damages(self) -> DamageLog: ...
    @property
    def copies(self) -> Sequence[Objects]: ...
    @property
    def clock(self) -> Clock: ...


def heal_or_refuse(stores: HealingStores, key: ObjectKey, problem: str) -> None:
    """Heal an object that a reader found damaged or missing. Return once it is whole again.

    Raises:
        ObjectHealing: a job is to make or fetch it again.
        ObjectDamaged: no source has it, as far as the node knows.
    """
    if heal_here(stores, key, problem) is not None:
        return
    if key.kind is ObjectKind.UPLOAD:  # no chain names it, so no job can make it again
        raise ObjectDamaged(key, problem)
    known = stores.damages.find(key)
    if known is not None:
        problem = known.reason  # a quarantined object is damaged, not missing
    if known is not None and (known.hopeless is not None or known.tries > HOPEFUL_TRIES):
        raise ObjectDamaged(key, problem, known.hopeless)
    if begin_healing(stores, key):
        raise ObjectHealing(key, problem)
    raise ObjectDamaged(key, problem)


def heal_here(stores: HealingStores, key: ObjectKey, problem: str) -> str | None:
    """Quarantine a damaged object, report it, and heal it from the sources at hand.

    Return the source, or `here` if another process healed it first; None if it is not whole.
    """
    with stores.locks.hold(key.dataset):
        is_here = _whole_or_put_aside(stores, key)
        source = "here" if is_here else _from_what_is_at_hand(stores, key)
    if source == "here":
        _log.warning(line("object whole meanwhile", object=store_name(key), problem=problem))
        return source
    _tell(stores, key, problem, source)
    return source


def begin_healing(stores: HealingStores, key: ObjectKey) -> bool:
    """Submit a job that makes or fetches the object again, unless one waits already. Return whether
    a job can do so."""
    kind = healing_job(stores, key)
    if kind is None:
        return False
    now, known = stores.clock(), stores.damages.find(key)
    if known is None or known.next_at <= now:
        stores.jobs.submit(heal_job.spec_of(key, kind))
        stores.damages.tried(key, next_at=next_try(now, 0 if known is None else known.tries))
    return True


def healing_job(stores: HealingStores, key: ObjectKey) -> str | None:
    """Return the kind of job that may restore the object; None if there is none."""
    entry = stores.registry.find(DatasetRef(id=key.dataset))
    if entry is None or key.kind is ObjectKind.UPLOAD:
        return None
    if stores.mirrors.find(key.dataset) is not None:
        return heal_job.FETCH
    is_computed = key.kind in (ObjectKind.DATA, ObjectKind.CHECKPOINT)
    return heal_job.KIND if is_computed and entry.kind is DatasetKind.Derivative else None


def note_healed(stores: HealingStores, key: ObjectKey, source: str) -> None:
    """Report that the object is whole again, from any source. Objects computed from it may be tried
    again at once."""
    now = stores.clock()
    if stores.damages.healed(key, at=now, source=source):
        _say(stores, key, "object healed", source)
        stores.damages.hasten(at=now)


def postpone_healing(stores: HealingStores, key: ObjectKey, why: str) -> None:
    """Record that the last try cannot heal the object; the next try is a day away."""
    later = Instant(stores.clock().ns + LONGEST_PAUSE_S * NANOS)
    stores.damages.tried(key, next_at=later, hopeless=why)
    _log.error(line("object cannot be healed", object=store_name(key), reason=why))


def retry_open_damages(stores: HealingStores, *, limit: int = 100) -> int:
    """Check the objects that are not whole; the service calls this from time to time. Return how
    many are whole now.

    Some were put again by their owners; others are due for another try.
    """
    whole, now = 0, stores.clock()
    for damage in stores.damages.open(limit=limit):
        key = damage.key
        if stores.objects.stat(key) is not None and is_whole(stores.objects, key):
            note_healed(stores, key, "put again")
            whole += 1
        elif damage.next_at <= now:
            whole += _try_again(stores, damage, now)
    return whole


def _try_again(stores: HealingStores, damage: Damage, now: Instant) -> bool:
    if heal_here(stores, damage.key, damage.reason) is not None:
        return True
    if not begin_healing(stores, damage.key):
        stores.damages.tried(damage.key, next_at=next_try(now, damage.tries))
    return False


def next_try(now: Instant, tries: int) -> Instant:
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * PAUSE_GROWTH ** min(tries, 10))
    return Instant(now.ns + pause * NANOS)


def is_whole(objects: Objects, key: ObjectKey) -> bool:
    """Return whether the bytes of the object match its hash, without any cache."""
    return _look(objects, key)[0]


def _look(objects: Objects, key: ObjectKey) -> tuple[bool, Identity | None]:
    """Return whether the object is whole, and the identity of what was hashed."""
    try:
        with objects.open(key) as stream:
            identity = identity_of(stream)
            return hash_of_stream(stream) == key.hash, identity
    except ObjectNotFound:
        return False, None


# --- sources --------------------------------------------------------------------------------


def _from_what_is_at_hand(stores: HealingStores, key: ObjectKey) -> str | None:
    for name, source in SOURCES:
        try:
            if source(stores, key):
                return name
        except (NodeError, OSError) as problem:  # the next source may have it
            _log.warning(line("not healed", source=name, object=store_name(key), reason=problem))
    return None


def _from_index(stores: HealingStores, key: ObjectKey) -> bool:
    if key.kind is not ObjectKind.BLOCK:
        return False
    found = stores.blocks.find(key.dataset, key.hash)
    if found is not None:
        stores.objects.put(key, (found.raw,))
    return found is not None


def _from_copies(stores: HealingStores, key: ObjectKey) -> bool:
    for copy in stores.copies:
        try:
            with copy.open(key) as stream:
                stores.objects.put(key, _pieces(stream.read))
        except ObjectNotFound:
            continue
        # damaged there as well, or the copy is not reachable
        except (NodeError, OSError) as problem:
            _log.warning(line("copy of no use", object=store_name(key), reason=problem))
            continue
        return True
    return False


SOURCES: tuple[tuple[str, Callable[[HealingStores, ObjectKey], bool]], ...] = (
    ("index", _from_index),
    ("copy", _from_copies),
)
"""Sources that need no transfer or computation, in the order in which they are tried."""


def _pieces(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while piece := read(PIECE_BYTES):
        yield piece


def _whole_or_put_aside(stores: HealingStores, key: ObjectKey) -> bool:
    """Return whether the object is whole; put it aside if not. An object that was put again while
    the damaged one was hashed is hashed as well."""
    for _ in range(LOOKS):
        is_here, hashed = _look(stores.objects, key)
        if is_here:
            return True
        if _identity(stores.objects, key) == hashed:
            _put_aside(stores, key)
            return False
    return False


def _identity(objects: Objects, key: ObjectKey) -> Identity | None:
    try:
        with objects.open(key) as stream:
            return identity_of(stream)
    except ObjectNotFound:
        return None


def _put_aside(stores: HealingStores, key: ObjectKey) -> None:
    """Move the object to quarantine and keep its bytes. If that fails, readers still do not trust
    it."""
    try:
        stores.objects.quarantine(key)
    except (NodeError, OSError):
        _log.exception(line("not put aside", object=store_name(key)))


# --- reporting ------------------------------------------------------------------------------


def _tell(stores: HealingStores, key: ObjectKey, problem: str, source: str | None) -> None:
    """Report the damage once to the administrator: in the log, the audit log and a gauge."""
    now = stores.clock()
    damage = Damage(key=key, found_at=now, reason=problem, next_at=now)
    is_news = key.kind is ObjectKind.UPLOAD or stores.damages.note(damage)
    if is_news:
        _say(stores, key, f"object {problem}", source)
    if source is not None:
        note_healed(stores, key, source)


def _say(stores: HealingStores, key: ObjectKey, what: str, source: str | None) -> None:
    healed = what == "object healed"
    facts = {"object": store_name(key), "dataset": str(key.dataset), "source": source}
    entry_facts = {"kind": str(key.kind), "hash": str(key.hash)} | (
        {"source": source} if source else {}
    )
    _log.log(logging.WARNING if healed else logging.ERROR, line(what, **facts))
    audit_entry = AuditEntry(
        at=stores.clock(),
        actor=BY,
        action=what,
        subject=store_name(key),
        outcome="healed" if source else "open",
        dataset=key.dataset,
        facts=entry_facts,
    )
    try:
        stores.audit.record([audit_entry])
    except Exception:  # the log of the process has it
        _log.exception(line("audit entry not recorded", action=what, object=store_name(key)))
