"""Fuzz target of the files around logs: notes, proofs, requests to witnesses, policies, entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tests.protocol.test_attestations import MADE
from tests.protocol.test_trust_log import RECORDS
from tests.protocol.test_trust_notes import CHECKPOINT, LOG_VKEY, POLICY

from odf_protocol.errors import NodeError
from odf_protocol.trust.attestations import Attestation
from odf_protocol.trust.checkpoints import AddCheckpoint, LogCheckpoint, LogProof, Policy
from odf_protocol.trust.heads import read_record
from odf_protocol.trust.notes import Note, NoteKey
from odf_protocol.trust.tiles import Tile, bundle, unbundled

READERS = (
    (Note.parse, bytes),
    (AddCheckpoint.parse, bytes),
    (LogProof.parse, lambda proof: str(proof).encode()),
    (lambda raw: LogCheckpoint.parse(_text(raw)), lambda one: one.text.encode()),
    (lambda raw: NoteKey.parse(_text(raw)), lambda key: str(key).encode()),
    (lambda raw: Tile.parse(_text(raw)), lambda tile: tile.path.encode()),
    (read_record, lambda record: record.entry),
    (unbundled, bundle),
)
"""Each reader, and what writes the very bytes again."""


def fuzz_trust(data: bytes) -> None:
    """What is read is written as it was; a policy has an answer."""
    for read, write in READERS:
        try:
            found = read(data)
        except NodeError:
            continue
        assert write(found) in (data, _text(data).encode())
    with suppress(NodeError):
        said = Attestation.parse(data)
        assert Attestation.parse(said.envelope) == said
    try:
        policy = Policy.parse(data)
    except NodeError:
        return
    assert policy.is_met([peer.key for _, peer in policy.witnesses]) in (True, False)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def trust_seeds() -> Iterator[bytes]:
    """Yield a good file of each kind."""
    yield from (CHECKPOINT.encode(), POLICY.encode(), LOG_VKEY.encode(), RECORDS[0].entry)
    yield MADE.envelope
    yield f"old 3\n\n{CHECKPOINT}".encode()
    yield f"c2sp.org/tlog-proof@v1\nextra AA==\nindex 2\n\n{CHECKPOINT}".encode()
