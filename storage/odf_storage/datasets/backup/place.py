"""The place of the backups of one node: a folder or bucket, sealed with a key if there is one.

    backup.json                    whose backups these are, and the id of the key that seals them
    claim.json                     who writes here now
    backups/00000007-9f3a….json    manifest of a backup, with the beginning of its own hash
    files/9f3a…                    parts of chains and tables, and lists of objects, by their hash
    objects/fed01…/f1620…          slices, checkpoints and uploads, by dataset and hash

A manifest is written last, so a backup is there completely or not at all. Everything else is named
by its content, and shared by all backups.

A sealed file is a salt and pieces of AES-256-GCM. The key of a file is derived from salt and name,
the number of a piece is its nonce, and the last piece says that it is the last: no piece can be
changed, exchanged, repeated or left out. Names of objects and files are replaced by their HMAC.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import msgspec

from odf_protocol.errors import BadInput, Conflict, Damaged, NotFound, Refused
from odf_protocol.instant import NANOS
from odf_protocol.typed import decode_json

from ...runtime.clock import Clock, system_clock
from ...stores.keyed.folder import open_keyed_store
from ...stores.objects.layout import PENDING_PREFIX
from ...stores.ports import KeyedStore
from ...stores.ports.errors import SwapLost

FORMAT = 1
"""Version of all that is written here; a place of a higher one is refused."""
ABOUT, CLAIM, MANIFESTS, FILES, OBJECTS = "backup.json", "claim.json", "backups", "files", "objects"
READ_BYTES = PIECE_BYTES = 1 << 20
SALT_BYTES = TAG_BYTES = 16
KEY_BYTES = 32
MOST_NOTE_BYTES = 64 << 10
CLAIM_S, RENEW_S = 600, 60
"""A claim that was not renewed for `CLAIM_S` seconds is one of a program that died."""


def damaged(what: str) -> Damaged:
    """A part of a backup is missing, cut short or changed."""
    return Damaged("BackupDamaged", f"the backup is damaged: {what}", what=what)


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Whose backups a place has."""

    format: int
    node: str
    key: str | None = None


class PlaceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes to a place, until when."""

    host: str
    pid: int
    until_s: int
    nonce: str


@dataclass(frozen=True)
class Seal:
    """The key of a place."""

    key: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hmac.digest(self.key, b"id", "sha256").hex()[:16]

    def name(self, name: str) -> str:
        return hmac.digest(self.key, b"name:" + name.encode(), "sha256").hex()

    def sealed(self, name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        salt = os.urandom(SALT_BYTES)
        yield salt
        for number, (piece, is_last) in enumerate(_pieces(chunks)):
            cipher = self._cipher(name, salt, number, is_last=is_last)
            content, tag = cipher.encrypt_and_digest(piece)
            yield bytes(content) + bytes(tag)

    def opened(self, name: str, stream: BinaryIO) -> Iterator[bytes]:
        salt = stream.read(SALT_BYTES)
        chunks = iter(lambda: stream.read(READ_BYTES), b"")
        for number, (piece, is_last) in enumerate(_pieces(chunks, PIECE_BYTES + TAG_BYTES)):
            cipher = self._cipher(name, salt, number, is_last=is_last)
            try:
                yield bytes(cipher.decrypt_and_verify(piece[:-TAG_BYTES], piece[-TAG_BYTES:]))
            except ValueError:
                raise damaged(f"{name} was changed, or cut short") from None

    def size(self, size: int) -> int:
        """Return the size of a file when it is sealed."""
        return SALT_BYTES + size + TAG_BYTES * max(1, -(-size // PIECE_BYTES))

    def _cipher(self, name: str, salt: bytes, number: int, *, is_last: bool) -> Any:
        from Crypto.Cipher import AES  # slow to import, and rarely needed

        key = hmac.digest(self.key, b"file:" + salt + name.encode(), "sha256")
        cipher = AES.new(key, AES.MODE_GCM, nonce=number.to_bytes(12), mac_len=TAG_BYTES)
        cipher.update(b"last" if is_last else b"more")
        return cipher


def _pieces(chunks: Iterable[bytes], size: int = PIECE_BYTES) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces of `size` bytes, and whether each is the last, which may be shorter or empty."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) > size:
            yield bytes(held[:size]), False
            del held[:size]
    yield bytes(held), True


def read_key(path: Path) -> Seal:
    """Return the key in a file. Raises `MalformedBackupKey`."""
    try:
        with path.open("rb") as stream:
            key = base64.b64decode(stream.read(MOST_NOTE_BYTES).strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadInput(
            "MalformedBackupKey",
            f"{path} holds no key: it is {KEY_BYTES} random bytes in base64, as "
            f"`openssl rand -base64 {KEY_BYTES}` makes them",
        )
    return Seal(key)


@dataclass
class Place:
    """Files of backups by name. `written` and `bytes_written` count what was added."""

    store: KeyedStore
    seal: Seal | None = None
    clock: Clock = system_clock
    written: int = 0
    bytes_written: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def put(self, name: str, chunks: Iterable[bytes]) -> None:
        if self.seal is not None:
            chunks = self.seal.sealed(name, chunks)
        self.store.put(self.stored(name), self._counted(chunks))
        with self._counting:
            self.written += 1

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content. Raises `BackupDamaged` if it is missing or was changed."""
        try:
            with self.store.open(self.stored(name)) as stream:
                if self.seal is not None:
                    yield from self.seal.opened(name, stream)
                else:
                    yield from iter(lambda: stream.read(READ_BYTES), b"")
        except NotFound:
            raise damaged(f"{name} is missing") from None

    def stored(self, name: str) -> str:
        """Return the key under which the store has a name."""
        if self.seal is None or name.startswith(MANIFESTS):
            return name
        return "/".join([name.partition("/")[0], *map(self.seal.name, name.split("/")[1:])])

    def stored_size(self, size: int) -> int:
        return size if self.seal is None else self.seal.size(size)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the stored files of a folder with their sizes."""
        return {info.key: info.size for info in self.store.list(self.stored(folder))}

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            with self._counting:
                self.bytes_written += len(chunk)
            yield chunk

    # --- whose it is ------------------------------------------------------------------------

    def about(self) -> About | None:
        """Return whose backups are here, None if it is no place yet.

        Raises:
            BackupTooNew, BackupKeyNeeded, BackupKeyWrong, BackupDamaged.
        """
        kept = self.store.read(ABOUT, most=MOST_NOTE_BYTES)
        if kept is None:
            return None
        try:
            about = decode_json(kept.raw, About)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise damaged(f"{ABOUT} cannot be read") from None
        refuse_newer(about.format)
        if about.key is not None and self.seal is None:
            raise Refused(
                "BackupKeyNeeded", "these backups are sealed; name the file of their key: --key"
            )
        if self.seal is not None and about.key != self.seal.id:
            sealed = "sealed with another key" if about.key else "not sealed, so they need no key"
            raise Refused("BackupKeyWrong", f"these backups are {sealed}")
        return about

    def begin(self, node: str) -> None:
        """Make the place that of a node, or see that it is. Raises as `about`, and
        `BackupOfAnotherNode`, `BackupPlaceTaken`."""
        about = self.about()
        if about is None:
            is_taken = self._has_other_files()
            about = self.about()  # another service of the node may have made it meanwhile
            if is_taken and about is None:
                raise Conflict(
                    "BackupPlaceTaken",
                    f"{getattr(self.store, 'root', None) or 'the bucket'} has other files there, "
                    "and no backups; name an empty folder or a new one",
                )
        if about is None:
            own = About(format=FORMAT, node=node, key=None if self.seal is None else self.seal.id)
            with suppress(SwapLost):
                self.store.swap(ABOUT, msgspec.json.encode(own), expected=None)
            about = self.about()
        if about is None or about.node != node:
            raise Conflict(
                "BackupOfAnotherNode",
                "the backups here are of another node; give each node a folder of its own",
            )

    def _has_other_files(self) -> bool:
        """Old backups are removed with all that is not needed any more in these folders."""
        root = getattr(self.store, "root", None)
        if root is not None and Path(root).is_dir():
            found = Path(root).iterdir()
            if any(not each.name.startswith(PENDING_PREFIX) for each in found):
                return True
        folders = (MANIFESTS, FILES, OBJECTS)
        return any(True for folder in folders for _ in self.store.list(folder))

    # --- one writer at a time ---------------------------------------------------------------

    @contextmanager
    def claimed(self) -> Iterator[Hold]:
        """Keep other writers out. Raises `BackupRunning`."""
        hold = Hold(self.store, self.clock)
        hold.take()
        timer = threading.Thread(target=hold.keep, name="backup claim", daemon=True)
        timer.start()
        try:
            yield hold
        finally:
            hold.ended.set()
            timer.join()
            hold.release()


class Hold:
    """A claim, which a thread renews."""

    def __init__(self, store: KeyedStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tag: str | None = None
        self.ended = threading.Event()

    def take(self) -> None:
        kept = self._store.read(CLAIM, most=MOST_NOTE_BYTES)
        if kept is not None and self._is_held(kept.raw):
            raise _running()
        self._write(None if kept is None else kept.tag)

    def keep(self) -> None:
        while not self.ended.wait(RENEW_S):
            try:
                self._write(self._tag)
            except Conflict:
                self._tag = None
                return
            except Exception:  # noqa: S112 - away for now; the claim lasts longer
                continue

    def confirm(self) -> None:
        """Raise `BackupRunning` if another writer took over, because this one paused so long."""
        kept = self._store.read(CLAIM, most=MOST_NOTE_BYTES)
        if kept is None or kept.tag != self._tag:
            raise _running()

    def release(self) -> None:
        kept = self._store.read(CLAIM, most=MOST_NOTE_BYTES)
        if kept is not None and kept.tag == self._tag:
            self._store.delete([CLAIM])

    def _write(self, expected: str | None) -> None:
        claim = PlaceClaim(
            host=socket.gethostname(),
            pid=os.getpid(),
            until_s=self._clock().ns // NANOS + CLAIM_S,
            nonce=os.urandom(8).hex(),
        )
        try:
            self._tag = self._store.swap(CLAIM, msgspec.json.encode(claim), expected=expected)
        except SwapLost:
            raise _running() from None

    def _is_held(self, raw: bytes) -> bool:
        try:
            claim = decode_json(raw, PlaceClaim)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        left_s = claim.until_s - self._clock().ns // NANOS
        if not 0 < left_s <= CLAIM_S:  # over, or of a clock that was ahead and is set back
            return False
        return claim.host != socket.gethostname() or _is_alive(claim.pid)


def _running() -> Conflict:
    return Conflict(
        "BackupRunning",
        f"another backup writes here; wait for it (one that died counts for {CLAIM_S // 60} "
        f"minutes, unless it ran on this machine)",
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def refuse_own(target: str, folders: Sequence[Path], objects_url: str | None) -> None:
    """Raise `BackupPlaceTaken` for a target that would be lost with the node, whose folders and
    bucket these are."""
    if objects_url is not None and f"{target.rstrip('/')}/".startswith(
        f"{objects_url.rstrip('/')}/"
    ):
        raise Conflict("BackupPlaceTaken", "the objects of the node are there; name another place")
    if "://" in target and not target.startswith("file://"):
        return
    path = Path(urlsplit(target).path if target.startswith("file://") else target)
    for folder in folders:
        if path.resolve().is_relative_to(folder.resolve()):
            raise Conflict(
                "BackupPlaceTaken",
                f"{path} is in the folder of the node, with which it would be lost; name another",
            )


def refuse_newer(version: int) -> None:
    """Raise `BackupTooNew` for a format of a later version."""
    if version > FORMAT:
        raise BadInput(
            "BackupTooNew",
            "these backups were made by a newer version of the node; restore them with that one",
            format=version,
        )


def digest_of(raw: bytes) -> str:
    """Return the name of a file."""
    return hashlib.sha3_256(raw).hexdigest()


def dumped(value: object) -> bytes:
    """Return a value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def open_place(target: str, seal: Seal | None, *, durable: bool = True) -> Place:
    """Open the place at a path or URL. Raises as `open_keyed_store`."""
    url = target if "://" in target else Path(target).absolute().as_uri()
    return Place(open_keyed_store(url, durable=durable), seal)
