"""Lists of datasets in a SQL database: filtered, ordered and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId

from ..index.sql import entry_of
from ..objects.layout import HEAD
from ..ports.overview_values import After, Listed, Order, Overview, Readable, SortBy, Wanted
from ..ports.values import Visibility
from ..sql.engine import insert_new, reading, storable, writing
from ..sql.overview_tables import WORD_CHARS, overview_words, overviews
from ..sql.tables import datasets, refs, roles
from .words import indexed_words

_D, _O, _W = datasets.c, overviews.c, overview_words.c
_ITS_HEAD = sa.and_(refs.c.dataset == _D.id, refs.c.name == HEAD)
_BEHIND_ALL = "\U0010ffff"
"""Sorts after every letter, so that words with a given beginning are a range of the index."""
_SAID = tuple(field.name for field in fields(Overview))
"""Columns that have the same names as the fields of `Overview`."""
_VALUES: dict[SortBy, sa.ColumnElement[Any]] = {
    SortBy.UPDATED: sa.func.coalesce(_O.updated_at, _D.created_at),
    SortBy.ROWS: sa.func.coalesce(_O.records, 0),
    SortBy.BYTES: sa.func.coalesce(_O.data_size, 0),
}


class SqlOverviewStore:
    """`OverviewStore` in SQL."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def page(
        self,
        wanted: Wanted,
        order: Order = Order(),
        *,
        after: After | None = None,
        skip: int = 0,
        limit: int = 100,
    ) -> Sequence[Listed]:
        if after is not None and not storable(after.alias):
            return []
        # sort ids only; rows with long descriptions are read just for one page
        chosen = (
            sa.select(_D.id)
            .outerjoin(overviews, _O.dataset == _D.id)
            .where(*_conditions(wanted), *([] if after is None else [_behind(order, after)]))
            .order_by(*_ordered(order))
            .offset(skip)
            .limit(limit)
        )
        query = (
            sa.select(datasets, refs.c.hash.label("its_head"), overviews)
            .join(refs, _ITS_HEAD)
            .outerjoin(overviews, _O.dataset == _D.id)
            .where(_D.id.in_(chosen))
            .order_by(*_ordered(order))
        )
        with reading(self._engine) as db:
            return [_listed(row) for row in db.execute(query).mappings()]

    def count(self, wanted: Wanted) -> int:
        query = sa.select(sa.func.count()).select_from(datasets).where(*_conditions(wanted))
        with reading(self._engine) as db:
            return int(db.execute(query).scalar_one())

    def due(self, *, limit: int = 100) -> Sequence[DatasetId]:
        query = (
            sa.select(refs.c.dataset)
            .outerjoin(overviews, _O.dataset == refs.c.dataset)
            .where(refs.c.name == HEAD, _O.head.is_distinct_from(refs.c.hash))
            .limit(limit)
        )
        with reading(self._engine) as db:
            return list(db.execute(query).scalars())

    def put(self, made: Mapping[DatasetId, Overview]) -> None:
        with writing(self._engine) as db:
            some = sa.select(_D.id).where(_D.id.in_(sorted(made)))
            known = list(db.execute(some.with_for_update(read=True, key_share=True)).scalars())
            if not known:
                return
            insert = insert_new(db, overviews)
            change = {name: insert.excluded[name] for name in _SAID}
            rows = [{"dataset": one, **_columns(made[one])} for one in known]
            db.execute(insert.on_conflict_do_update(index_elements=["dataset"], set_=change), rows)
            db.execute(sa.delete(overview_words).where(_W.dataset.in_(known)))
            words = [row for one in known for row in _words(one, made[one])]
            if words:
                db.execute(sa.insert(overview_words), words)


def _conditions(wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    made = [_readable(wanted.readable), *(_has(word) for word in wanted.words)]
    if wanted.kind is not None:
        made.append(_D.kind == wanted.kind.value)
    if wanted.account is not None:
        made.append(_equals(_D.account_folded, wanted.account.lower()))
    if wanted.visibility is not None:
        made.append(_D.visibility == wanted.visibility.value)
    if wanted.keyword is not None:
        keyword = _W.is_keyword & _equals(_W.word, keyword_word(wanted.keyword))
        made.append(_D.id.in_(sa.select(_W.dataset).where(keyword)))
    return made


def _readable(readable: Readable) -> sa.ColumnElement[bool]:
    """Build the SQL condition for what `grants` of the service decides about one dataset."""
    if readable.everything:
        return sa.true()
    held: list[sa.ColumnElement[bool]] = []
    if readable.account is not None:
        held.append(_D.account_folded == readable.account)
    if readable.roles_of is not None:
        its = sa.select(roles.c.dataset).where(roles.c.account == readable.roles_of)
        held.append(_D.id.in_(its))
    some = sa.or_(sa.false(), *held)
    if readable.within is not None:
        some = some & (_D.id == readable.within)
    return sa.or_(_D.visibility == Visibility.PUBLIC.value, _D.id.in_(readable.datasets), some)


def _has(word: str) -> sa.ColumnElement[bool]:
    if not storable(word):
        return sa.false()
    begins = (_W.word >= word) & (_W.word < word + _BEHIND_ALL)
    its = sa.select(_W.dataset).where(sa.not_(_W.is_keyword), begins)
    return sa.or_(_D.alias_folded.contains(word, autoescape=True), _D.id.in_(its))


def _equals(column: sa.ColumnElement[str], text: str) -> sa.ColumnElement[bool]:
    return column == text if storable(text) else sa.false()


def _ordered(order: Order) -> list[sa.ColumnElement[Any]]:
    value = _VALUES.get(order.by, _D.alias_folded)
    first = value.desc() if order.descending else value.asc()
    return [first] if order.by is SortBy.NAME else [first, _D.alias_folded]


def _behind(order: Order, after: After) -> sa.ColumnElement[bool]:
    alias, behind = _D.alias_folded, _D.alias_folded > after.alias
    if order.by is SortBy.NAME:
        return alias < after.alias if order.descending else behind
    value = _VALUES[order.by]
    its = sa.literal(after.value, value.type)
    further = value < its if order.descending else value > its
    return sa.or_(further, sa.and_(value == its, behind))


def _columns(overview: Overview) -> dict[str, Any]:
    return {name: getattr(overview, name) for name in _SAID}


def _words(dataset: DatasetId, overview: Overview) -> list[dict[str, Any]]:
    words = indexed_words(" ".join((*overview.keywords, overview.description or "")))
    keywords = {keyword_word(one) for one in overview.keywords}
    return [
        {"dataset": dataset, "is_keyword": is_keyword, "word": word}
        for is_keyword, several in ((False, words), (True, keywords))
        for word in sorted(several)
    ]


def keyword_word(text: str) -> str:
    """Return a keyword in the form that is stored and compared: folded, with single spaces."""
    return " ".join(text.casefold().split())[:WORD_CHARS]


def _listed(row: sa.RowMapping) -> Listed:
    overview = None
    if row[_O.dataset] is not None:
        said = {name: row[_O[name]] for name in _SAID}
        overview = Overview(**{**said, "keywords": tuple(said["keywords"])})
    return Listed(entry_of(row), row["its_head"], overview)
