"""Mirrors: datasets of this node that follow a dataset on another node, and accept data from
nowhere else.

A mirror is created with the Seed of its remote (`mirror_pull.py`), and filled by jobs
(`job_payloads/mirror_job.py`) that pull like the client. The token for the remote is stored
sealed, and sent only to the origin of the remote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from odf_protocol.codec.manifests import MalformedManifest, load_documents
from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_storage.datasets.job_payloads import mirror_job
from odf_storage.datasets.job_payloads.mirror_job import MirrorPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports.following import MIRROR_TOKEN, Mirror
from odf_storage.stores.ports.values import DatasetEntry, JobId
from odf_storage.stores.registers.accounts.sealing import SecretKeys
from odf_storage.stores.registers.datasets.following import MirrorReads, MirrorStore

from ...client.nodes.limits import ClientLimits
from ...client.nodes.remotes import Location, Transfer
from ..settings import Settings
from ..transfer.admission import Receiving

MAX_BATCH_BLOCKS = 1_000_000
"""Most blocks taken in one smart transfer."""

KIND = "DatasetMirror"
FOLLOWED = frozenset({Transfer.SMART, Transfer.SIMPLE})
_ENVELOPE = frozenset({"kind", "version", "content"})
_FIELDS = frozenset({"name", "remote", "token"})


@dataclass(frozen=True, slots=True)
class MirrorAsked:
    """A request for a mirror: its name, its remote, and a token for the remote."""

    name: DatasetAlias
    remote: Location
    token: str | None = field(repr=False)


Guest = Callable[[DatasetEntry, Location, str | None], None]
"""Copies from a remote, with the token for it, what belongs to a dataset beside its chain."""


@dataclass(frozen=True)
class Mirrors:
    """The dependencies and limits of the mirrors of a node."""

    stores: Stores
    receiving: Receiving
    keys: SecretKeys
    limits: ClientLimits
    clock: Clock
    guests: list[Guest] = field(default_factory=list)
    """What features copy besides, after each pull."""
    wake_up: threading.Event = field(default_factory=threading.Event)
    """Set when there may be a mirror job to run."""


def mirror_asked(manifest: bytes) -> MirrorAsked | None:
    """Parse a `DatasetMirror` manifest; return None for a manifest of another kind.

    Raises:
        MalformedManifest, UnsupportedUrl, RemoteUnusable
    """
    if KIND.encode() not in manifest:
        return None
    documents = load_documents(manifest)
    if not documents or not isinstance(documents[0], dict) or documents[0].get("kind") != KIND:
        return None
    if len(documents) != 1 or set(documents[0]) != _ENVELOPE or documents[0]["version"] != 1:
        raise MalformedManifest(f"one {KIND} of version 1 with content is expected")
    content = documents[0]["content"]
    if not isinstance(content, dict) or set(content) - _FIELDS:
        raise MalformedManifest("name, remote and token are expected", "$.content")
    name, remote, token = (content.get(key) for key in ("name", "remote", "token"))
    if not isinstance(name, str) or not isinstance(remote, str):
        raise MalformedManifest("name and remote are texts", "$.content")
    if token is not None and not isinstance(token, str):
        raise MalformedManifest("a token is a text", "$.content.token")
    return MirrorAsked(DatasetAlias.parse(name), parse_remote(remote), token)


def parse_remote(text: str) -> Location:
    """Parse the URL of a remote. Raises `UnsupportedUrl`, `RemoteUnusable`.

    A bucket is not allowed, because requests to it would be signed with the credentials of this
    node.
    """
    location = Location.parse(text)
    if location.transfer not in FOLLOWED:
        raise BadInput(
            "RemoteUnusable",
            "a mirror follows a URL: odf+http(s)://… or http(s)://…; a public bucket has one, too",
        )
    return location


def change_remote(
    mirrors: Mirrors, entry: DatasetEntry, remote: Location, token: str | None
) -> None:
    """Change the remote or the token of a mirror. Raises `NotAMirror`."""
    mirror_of(mirrors.stores.mirrors, entry)
    keep_remote(mirrors, entry, remote, token)


def detach(mirrors: MirrorStore, entry: DatasetEntry) -> None:
    """Turn the mirror into an ordinary dataset. Raises `NotAMirror`."""
    mirror_of(mirrors, entry)
    mirrors.remove(entry.id)


def mirror_of(mirrors: MirrorReads, entry: DatasetEntry) -> Mirror:
    """Return the mirror record of the dataset. Raises `NotAMirror`."""
    found = mirrors.find(entry.id)
    if found is None:
        raise BadInput("NotAMirror", "the dataset is no mirror: it follows nothing")
    return found


def submit_pull(mirrors: Mirrors, entry: DatasetEntry, *, force: bool = False) -> JobId:
    """Queue a pull behind other work on the dataset. If an equal job waits already, return that
    one."""
    job = mirrors.stores.jobs.submit(mirror_job.spec_of(entry.id, MirrorPayload(force=force)))
    mirrors.wake_up.set()
    return job


def shown(mirror: Mirror) -> dict[str, Any]:
    """Return a mirror as JSON. The token is never shown."""
    status = mirror.status
    return {
        "remote": mirror.remote,
        "hasToken": mirror.sealed_token is not None,
        "state": status.state.value,
        "checkedAt": None if status.checked_at is None else str(status.checked_at),
        "error": status.error,
        "message": status.message,
    }


def limits_of(settings: Settings) -> ClientLimits:
    """Return the limits on data from remotes, and the networks in which remotes may be."""
    return ClientLimits(
        blocks=MAX_BATCH_BLOCKS,
        metadata_bytes=settings.max_batch_bytes,
        object_bytes=settings.max_object_bytes,
        networks=tuple(str(network) for network in settings.mirror_networks),
    )


def keep_remote(mirrors: Mirrors, entry: DatasetEntry, remote: Location, token: str | None) -> None:
    """Store the remote of a dataset, with the sealed token."""
    mirror = Mirror(dataset=entry.id, remote=str(remote))
    if token:
        sealed = mirrors.keys.kept(mirror.token_owner, MIRROR_TOKEN, token)
        mirror = replace(mirror, sealed_token=sealed)
    mirrors.stores.mirrors.put(mirror)
