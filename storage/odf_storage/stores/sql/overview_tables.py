"""Tables of the overviews that lists of datasets show; see `tables.py` for the column types.

All their content is derived from chains, so the tables may be emptied at any time.
"""

from __future__ import annotations

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from .tables import DatasetIdColumn, HashColumn, InstantColumn, by_bytes, metadata

WORD_CHARS = 200


def _of_dataset() -> sa.Column[DatasetId]:
    key = sa.ForeignKey("datasets.id", ondelete="CASCADE")
    return sa.Column("dataset", DatasetIdColumn, key, primary_key=True)


overviews = sa.Table(
    "overviews",
    metadata,
    _of_dataset(),
    sa.Column("head", HashColumn, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("data_size", sa.BigInteger, nullable=False),
    sa.Column("blocks", sa.BigInteger, nullable=False),
    sa.Column("updated_at", InstantColumn, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("license", sa.Text),
    sa.Column("keywords", sa.JSON, nullable=False),
)

overview_words = sa.Table(
    "overview_words",
    metadata,
    _of_dataset(),
    sa.Column("is_keyword", sa.Boolean, primary_key=True),
    sa.Column("word", by_bytes(WORD_CHARS), primary_key=True),
    sa.Index("ix_overview_words_word", "is_keyword", "word", "dataset"),
)
"""Folded words of descriptions and keywords. If `is_keyword`, the word is a whole keyword."""
