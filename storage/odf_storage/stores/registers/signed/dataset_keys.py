"""Secret keys of datasets in SQL: the id of a dataset is the public half of its key.

A key is sealed for its dataset (`sealing.py`), and kept in the transaction that creates the
dataset. Forgetting the dataset removes it. A dataset that came here by a push has none, until its
owner imports it.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from odf_protocol.commitments import KeyPair, key_pair
from odf_protocol.identity import DatasetId

from ...sql.engine import insert_new, reading, writing
from ...sql.tables import dataset_keys
from ..accounts.sealing import SecretKeys

NAME = "dataset-key"


def sealed_key(keys: SecretKeys, key: KeyPair) -> bytes:
    """Return the secret half of a dataset's key, sealed for it."""
    return keys.kept(str(key.dataset_id), NAME, key.seed.hex())


def opened_key(keys: SecretKeys, dataset: DatasetId, sealed: bytes) -> KeyPair:
    """Return the key. Raises `SecretUnreadable`."""
    return key_pair(bytes.fromhex(keys.text_of(str(dataset), NAME, sealed)))


class DatasetKeys:
    """The sealed keys by dataset, and which key of the node each has endorsed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, dataset: DatasetId) -> bytes | None:
        query = sa.select(dataset_keys.c.sealed).where(dataset_keys.c.dataset == dataset)
        with reading(self._engine) as db:
            found = db.execute(query).scalar_one_or_none()
        return None if found is None else bytes(found)

    def all(self) -> Sequence[DatasetId]:
        query = sa.select(dataset_keys.c.dataset).order_by(dataset_keys.c.dataset)
        with reading(self._engine) as db:
            return db.execute(query).scalars().all()

    def put(self, dataset: DatasetId, sealed: bytes) -> None:
        """Keep a key, or keep it sealed anew."""
        with writing(self._engine) as db:
            insert = insert_new(db, dataset_keys).values(dataset=dataset, sealed=sealed)
            new = {"sealed": sealed}
            db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=new))

    def remove(self, dataset: DatasetId) -> bool:
        gone = sa.delete(dataset_keys).where(dataset_keys.c.dataset == dataset)
        with writing(self._engine) as db:
            return bool(db.execute(gone).rowcount)

    def unendorsed(self, node: bytes, *, limit: int) -> Sequence[tuple[DatasetId, bytes]]:
        """Return datasets, with their keys, that have not endorsed this key of a node."""
        query = (
            sa.select(dataset_keys.c.dataset, dataset_keys.c.sealed)
            .where(dataset_keys.c.endorsed.is_distinct_from(node))
            .limit(limit)
        )
        with reading(self._engine) as db:
            return [(row.dataset, bytes(row.sealed)) for row in db.execute(query)]

    def note_endorsed(self, dataset: DatasetId, node: bytes) -> None:
        its = sa.update(dataset_keys).where(dataset_keys.c.dataset == dataset)
        with writing(self._engine) as db:
            db.execute(its.values(endorsed=node))
