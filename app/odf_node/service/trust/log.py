"""Keep the log of heads: sign what is new, refuse to go back, prove the head of a dataset.

The newest checkpoint is kept beside the objects, too. If the database has a smaller log than that,
a backup was restored: the node signs nothing until an administrator accepts the gap.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from pydantic import Field

from odf_protocol.errors import Conflict, NotFound, Unavailable
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_protocol.trust.checkpoints import MAX_POLICY_BYTES, LogCheckpoint, LogProof, Policy
from odf_protocol.trust.heads import (
    SALT_BYTES,
    UNNAMED,
    MapRecord,
    logged_name,
    map_of,
    read_record,
)
from odf_protocol.trust.merkle import Nodes, inclusion_path, tree_root
from odf_protocol.trust.notes import MAX_NOTE_BYTES, Note, encoded, note_line
from odf_protocol.trust.tiles import Tile
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.environment import BaseSettings
from odf_storage.stores.keyed.folder import Below
from odf_storage.stores.ports.values import DatasetEntry, Visibility
from odf_storage.stores.registers.signed.head_log import HeadLogReads, LoggedHead, LogState
from odf_storage.stores.sql.engine import reading

from ..query.proofs import SigningKeys

SALTS = "log-salts"
"""Name of the secret of which the salts of private datasets are made."""
SALTS_BYTES = 32
FOLDER, NEWEST = "log", "checkpoint"
ATTEMPTS = 3
PROOFS_KEPT = 2_000
"""Proofs in memory, of some 3 KB each."""
LOGGED_SOON_S = 1
_log = logging.getLogger("odf.log")


class TrustSettings(BaseSettings):
    """Read from `ODF_TRUST_…`."""

    PREFIX: ClassVar[str] = "ODF_TRUST_"

    heads_map_s: float = Field(
        300.0,
        gt=0,
        description="Seconds after which the log signs a map of all heads again, if any moved.",
    )
    policy: Path | None = Field(
        None,
        description="File of the form tlog-policy; its witnesses that have a URL are asked "
        "to sign the log.",
    )
    witness_for: Path | None = Field(
        None,
        description="File of the form tlog-policy, for whose logs the node is a witness.",
    )
    witness_heartbeat_s: float = Field(
        300.0,
        gt=0,
        description="Seconds after which witnesses are asked to sign a log again that did not "
        "change.",
    )
    attest: bool = Field(
        True, description="Sign for each block how this node ingested or computed it."
    )
    name_accounts: bool = Field(
        False,
        description="Name accounts in attestations; without it they are salted hashes.",
    )
    block_attestations: int = Field(
        100, ge=1, description="Limit of attestations that are kept of one block."
    )
    witness_answer_s: float = Field(
        10.0, gt=0, le=120, description="Seconds a witness may take to answer."
    )


def policy_of(path: Path | None) -> Policy:
    """Read a policy of the settings; without a file it names nobody. Raises `MalformedPolicy`."""
    if path is None:
        return Policy()
    with path.open("rb") as stream:
        return Policy.parse(stream.read(MAX_POLICY_BYTES + 1))


@dataclass(frozen=True, slots=True)
class HeadMap:
    """The newest map: its leaf, and the place of each dataset's record below its root."""

    leaf: int
    places: Mapping[DatasetId, int]
    entries: list[bytes]
    nodes: Nodes


def kept_beside(stores: Stores) -> Below:
    """Return the store that keeps the newest checkpoint outside of the database."""
    return Below(stores.projections, FOLDER)


def lost_checkpoint(stores: Stores) -> LogCheckpoint | None:
    """Return the checkpoint that was signed, and that the log of the database does not continue;
    None if all is well."""
    kept = kept_beside(stores).read(NEWEST, most=MAX_NOTE_BYTES)
    if kept is None:
        return None
    signed = LogCheckpoint.parse(Note.parse(kept.raw).text)
    state = stores.head_log.state() or LogState(origin=signed.origin)
    if (signed.size, signed.root) == (state.gap_size, state.gap_root):
        return None
    if signed.size > state.size:
        return signed
    root = state.root
    if signed.size < state.size:
        root = tree_root(signed.size, stores.head_log.nodes(state.size))
    return None if root == signed.root else signed


@dataclass(frozen=True)
class LogKeeper:
    """Signs the log of heads of this node."""

    stores: Stores
    keys: SigningKeys
    salts: bytes = field(repr=False)
    """The secret of which the salts of private datasets are made."""
    public_url: str | None
    map_s: float
    path: str
    """Where the log lies, seen from the address of a dataset."""
    clock: Clock

    @cached_property
    def _maps(self) -> dict[tuple[int, bytes], HeadMap]:
        return {}

    @cached_property
    def origin(self) -> str:
        """The name under which a new log begins: the public address without its scheme."""
        if self.public_url is not None:
            return self.public_url.partition("://")[2].rstrip("/")
        return f"{UNNAMED}/{self.keys.active.public[:8].hex()}"

    def salt_of(self, dataset: DatasetId) -> bytes:
        return hmac.digest(self.salts, dataset.key, "sha256")[:SALT_BYTES]

    def begin(self) -> None:
        """Take in heads that the log has not seen move."""
        self.stores.head_log.find_missing(self.clock())

    def bring_up(self) -> LogState | None:
        """Sign all that is new. Return the newest state, or None if nothing was ever logged.

        Raises:
            LogWentBack: the log is not the continuation of what was signed.
        """
        self._refuse_gap()
        log = self.stores.head_log
        while (
            new := log.integrate(
                self.origin, self._name, self._signed, self.clock(), map_s=self.map_s
            )
        ) is not None:
            kept_beside(self.stores).put(NEWEST, [new.checkpoint.encode()])
        return log.state()

    def checkpoint(self) -> str:
        """Return the newest signed note. Raises `NothingLogged`."""
        state = self.stores.head_log.state()
        if state is None or not state.size:
            raise NotFound("NothingLogged", "no head was logged yet; ask again in a second")
        return state.checkpoint

    def file(self, tile: Tile) -> bytes:
        """Return a tile or entries. Raises `NoSuchTile`."""
        state = self.stores.head_log.state()
        return self.stores.head_log.read(tile, 0 if state is None else state.size)

    def _refuse_gap(self) -> None:
        lost = lost_checkpoint(self.stores)
        if lost is not None:
            raise Conflict(
                "LogWentBack",
                f"this node signed a log of {lost.size} leaves which its database does not "
                "continue, as after a backup was restored. It signs nothing until an "
                "administrator runs `odf-node head-log resume --accept-gap`",
                size=lost.size,
            )

    @cached_property
    def _proofs(self) -> dict[DatasetId, tuple[tuple[Multihash, str], bytes]]:
        return {}

    def proof_text(self, entry: DatasetEntry) -> bytes:
        """Return the proof as JSON, made once for a head and a checkpoint.

        Raises:
            HeadNotLogged, LogWentBack.
        """
        newest = self.stores.head_log.newest(entry.id)
        known = self.known_proof(entry.id, newest)
        if known is not None:
            return known
        text = msgspec.json.encode(self.proof(entry))
        if newest is not None and newest == self.stores.head_log.newest(entry.id):
            if len(self._proofs) >= PROOFS_KEPT:
                self._proofs.clear()
            self._proofs[entry.id] = (newest, text)
        return text

    def known_proof(self, dataset: DatasetId, newest: tuple[Multihash, str] | None) -> bytes | None:
        """Return the proof of this head and checkpoint, if it was made already."""
        known = self._proofs.get(dataset)
        return known[1] if known is not None and known[0] == newest else None

    def proof(self, entry: DatasetEntry) -> dict[str, Any]:
        """Return the leaf of the dataset's head, the path to a signed checkpoint, and the map.

        Raises:
            HeadNotLogged: the head moves faster than it is logged; LogWentBack.
        """
        logged = self._logged(entry.id)
        with reading(self.stores.engine) as db:
            log = HeadLogReads(db)
            for _ in range(ATTEMPTS):
                state = log.state()
                found = None if state is None else self._map(log, state)
                if state is not None and found is not None:
                    return self._shown(log, entry, logged, state, found)
        raise self._moving()

    def _logged(self, dataset: DatasetId) -> LoggedHead:
        log, head = self.stores.head_log, self.stores.refs.head(dataset)
        for attempt in range(ATTEMPTS):
            logged = log.find(dataset)
            if logged is not None and logged.block == head:
                return logged
            if attempt:
                log.find_missing(self.clock())
            self.bring_up()
            head = self.stores.refs.head(dataset)
        raise self._moving()

    def _moving(self) -> Unavailable:
        return Unavailable(
            "HeadNotLogged",
            "the head moves faster than it is logged; ask again in a second",
            retry_after_s=LOGGED_SOON_S,
        )

    def _shown(
        self,
        log: HeadLogReads,
        entry: DatasetEntry,
        logged: LoggedHead,
        state: LogState,
        found: HeadMap,
    ) -> dict[str, Any]:
        nodes = log.nodes(state.size)
        path = tuple(inclusion_path(logged.newest, state.size, nodes))
        proof = LogProof(logged.newest, path, Note.parse(state.checkpoint.encode()))
        return {
            "leaf": log.entry(logged.newest).decode(),
            "proof": str(proof),
            "log": self.path,
            "salt": encoded(self.salt_of(entry.id)),
            "last": _leaf(log, state.size - 1, state.size, nodes),
            "map": {
                **_leaf(log, found.leaf, state.size, nodes),
                **self._place(found, entry.id),
            },
        }

    def _place(self, found: HeadMap, dataset: DatasetId) -> dict[str, Any]:
        """Return the record of the dataset in a map, with its path."""
        place = found.places.get(dataset)
        if place is None:
            return {"record": None}
        path = inclusion_path(place, len(found.entries), found.nodes)
        return {
            "record": found.entries[place].decode(),
            "recordIndex": place,
            "recordPath": list(map(encoded, path)),
        }

    def _map(self, log: HeadLogReads, state: LogState) -> HeadMap | None:
        """Return the map of this state; None if there is a newer one meanwhile."""
        if state.map_leaf is None:
            return None
        leaf = log.entry(state.map_leaf)
        known = self._maps.get((state.map_leaf, leaf))
        if known is not None:
            return known
        mapped = log.mapped()
        entries = [entry for _, entry in mapped]
        leaves, nodes = map_of(entries)
        record = read_record(leaf)
        root = tree_root(len(leaves), nodes)
        if not isinstance(record, MapRecord) or (record.count, record.root) != (len(leaves), root):
            return None
        places = {dataset: place for place, (dataset, _) in enumerate(mapped)}
        made = HeadMap(state.map_leaf, places, entries, nodes)
        self._maps.clear()
        self._maps[state.map_leaf, leaf] = made
        return made

    def _name(self, dataset: DatasetId, visibility: Visibility) -> str:
        is_public = visibility is Visibility.PUBLIC
        return logged_name(dataset, None if is_public else self.salt_of(dataset))

    def _signed(self, origin: str, size: int, root: bytes) -> str:
        text = LogCheckpoint(origin, size, root).text
        return str(Note(text, (note_line(text, origin, self.keys.active),)))


def _leaf(log: HeadLogReads, index: int, size: int, nodes: Nodes) -> dict[str, Any]:
    """Return a leaf with its path to the root."""
    path = list(map(encoded, inclusion_path(index, size, nodes)))
    return {"leaf": log.entry(index).decode(), "index": index, "path": path}
