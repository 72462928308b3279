"""Attestations of blocks in SQL, and the jobs of which the node has still to attest what they did.

A job that added blocks leaves a note in the transaction that ends it (`jobs/sql_rows.py`). What was
attested is kept in the transaction that takes the note away, so none is forgotten or made twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from odf_protocol.errors import LimitExceeded
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_protocol.trust.attestations import Attestation, Claim, predicate_of, retired_of

from ...jobs.sql_rows import job_id
from ...ports.values import JobId
from ...sql.engine import insert_new, reading, writing
from ...sql.tables import (
    HashColumn,
    NumberColumn,
    blocks,
    jobs,
    metadata,
    of_dataset,
    unattested_jobs,
)

attestations = sa.Table(
    "attestations",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    of_dataset(is_key=False),
    sa.Column("hash", HashColumn, nullable=False),
    sa.Column("block", HashColumn, nullable=False),
    sa.Column("claim", sa.String(100), nullable=False),
    sa.Column("signer", sa.LargeBinary, nullable=False),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.Index("ix_attestations_block", "dataset", "block"),
    sa.Index("uq_attestations_hash", "dataset", "hash", unique=True),
    sqlite_autoincrement=True,
)
sources = sa.Table(
    "attestation_sources",
    metadata,
    of_dataset(),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("after", sa.BigInteger, nullable=False),
)
"""How far the attestations of the node that a mirror follows were taken over."""
_ITS_BLOCK = sa.and_(
    blocks.c.dataset == attestations.c.dataset, blocks.c.hash == attestations.c.block
)
_STILL_THERE = sa.exists().where(_ITS_BLOCK)


@dataclass(frozen=True, slots=True)
class KeptAttestation:
    """An attestation with the number by which pages go on."""

    number: int
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """What kind of thing a key says of a dataset, of how many blocks, and of which one last."""

    claim: Claim
    signer: bytes
    blocks: int
    last: int
    """Sequence number of a block."""
    retired: frozenset[bytes] = frozenset()
    """The keys of whose place the signer of a replay took, as its newest one says."""


class AttestationStore:
    """What was said of the blocks of this node, by the node and by others. Forgetting a dataset
    removes what was said of it; what was said of blocks that are gone is not shown."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def add(self, made: Sequence[Attestation], *, most: int) -> int:
        """Keep attestations, whose blocks the node has; return how many are new.

        Raises:
            TooManyAttestations: a block would have more than `most`; none is kept.
        """
        with writing(self._engine) as db:
            new = _insert(db, made)
            for dataset, block in {(each.dataset, each.block) for each in made}:
                its = (attestations.c.dataset == dataset, attestations.c.block == block)
                count = sa.select(sa.func.count()).select_from(attestations).where(*its)
                if int(db.execute(count).scalar_one()) > most:
                    raise LimitExceeded(
                        "TooManyAttestations",
                        f"block {block} would have more than {most} attestations",
                        limit=most,
                        setting="ODF_TRUST_BLOCK_ATTESTATIONS",
                    )
        return new

    def page(
        self, dataset: DatasetId, *, after: int, limit: int, block: Multihash | None = None
    ) -> Sequence[KeptAttestation]:
        """Return what was said of a dataset or a block of it, in the order of its arrival."""
        query = (
            sa.select(attestations.c.number, attestations.c.envelope)
            .where(attestations.c.dataset == dataset, attestations.c.number > after, _STILL_THERE)
            .order_by(attestations.c.number)
            .limit(limit)
        )
        if block is not None:
            query = query.where(attestations.c.block == block)
        with reading(self._engine) as db:
            return [KeptAttestation(row.number, row.envelope) for row in db.execute(query)]

    def signers(self, dataset: DatasetId) -> Sequence[Said]:
        """Return who said what kind of thing of the dataset."""
        query = (
            sa.select(
                attestations.c.claim,
                attestations.c.signer,
                sa.func.count(attestations.c.block.distinct()),
                sa.func.max(blocks.c.sequence_number),
                sa.func.max(attestations.c.number),
            )
            .join(blocks, _ITS_BLOCK)
            .where(attestations.c.dataset == dataset)
            .group_by(attestations.c.claim, attestations.c.signer)
            .order_by(attestations.c.claim, attestations.c.signer)
        )
        with reading(self._engine) as db:
            rows = db.execute(query).all()
            newest = [number for claim, *_, number in rows if claim == Claim.REPLAY]
            told = sa.select(attestations.c.number, attestations.c.envelope).where(
                attestations.c.number.in_(newest)
            )
            envelopes = {row.number: bytes(row.envelope) for row in db.execute(told)}
        retired = {at: retired_of(predicate_of(each)) for at, each in envelopes.items()}
        return [
            Said(Claim(claim), bytes(key), count, last, retired.get(number, frozenset()))
            for claim, key, count, last, number in rows
        ]

    def taken(self, dataset: DatasetId, source: str) -> int:
        """Return the number at the source after which attestations were not taken over yet."""
        its = (sources.c.dataset == dataset, sources.c.source == source)
        with reading(self._engine) as db:
            return int(db.execute(sa.select(sources.c.after).where(*its)).scalar() or 0)

    def note_taken(self, dataset: DatasetId, source: str, after: int) -> None:
        """Remember it; another source begins anew."""
        new = {"source": source, "after": after}
        with writing(self._engine) as db:
            insert = insert_new(db, sources).values(dataset=dataset, **new)
            db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=new))

    def unattested(self, *, limit: int) -> Sequence[JobId]:
        """Return jobs that added blocks and were not attested, the oldest first."""
        query = (
            sa.select(unattested_jobs.c.number, jobs.c.tag)
            .outerjoin(jobs, jobs.c.number == unattested_jobs.c.number)
            .order_by(unattested_jobs.c.number)
            .limit(limit)
        )
        with reading(self._engine) as db:
            return [job_id(row.number, row.tag or "") for row in db.execute(query)]

    def attested(self, done: Sequence[JobId], made: Sequence[Attestation]) -> None:
        """Keep what the node says of what these jobs did, and take their notes away."""
        numbers = [int(each.partition("-")[0], 16) for each in done]
        with writing(self._engine) as db:
            _insert(db, made)
            db.execute(sa.delete(unattested_jobs).where(unattested_jobs.c.number.in_(numbers)))


def _insert(db: sa.Connection, made: Sequence[Attestation]) -> int:
    """Insert what is new and whose block is still there; return how many."""
    new = 0
    for each in made:
        its = (blocks.c.dataset == each.dataset, blocks.c.hash == each.block)
        row = {
            "dataset": each.dataset,
            "hash": each.id,
            "block": each.block,
            "claim": each.claim.value,
            "signer": each.signer,
            "envelope": each.envelope,
        }
        if db.execute(sa.select(blocks.c.hash).where(*its)).first() is not None:
            insert = insert_new(db, attestations).values(**row)
            new += db.execute(insert.on_conflict_do_nothing()).rowcount
    return new
