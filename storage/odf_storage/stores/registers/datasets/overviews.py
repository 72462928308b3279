"""Lists of datasets in a SQL database: filtered, searched, ordered and counted.

Texts are split into words for searches: folded, without punctuation. In scripts without spaces, a
word begins at each letter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from ...index.sql import entry_of
from ...objects.layout import HEAD
from ...ports.overviews import (
    After,
    Facets,
    ListedOverview,
    ListOrder,
    Overview,
    Readable,
    SortBy,
    WantedOverviews,
)
from ...ports.values import Visibility
from ...sql.engine import (
    insert_new,
    reading,
    storable,
    writing,
)
from ...sql.tables import (
    HashColumn,
    InstantColumn,
    by_bytes,
    datasets,
    metadata,
    of_dataset,
    refs,
    roles,
)

WORD_CHARS = 40
"""Limit in characters of a word. Longer words are cut, in texts and in searches alike."""
MAX_WORDS = 400
"""Limit of words per text; the first ones are kept."""
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_of(text: str) -> tuple[str, ...]:
    """Return the distinct words of a search, in order: `NYC taxi-trips` is nyc, taxi, trips."""
    return tuple(dict.fromkeys(word.casefold()[:WORD_CHARS] for word in _WORD.findall(text)))


def indexed_words(text: str) -> frozenset[str]:
    """Return all words that a search by prefix should find, and their stems; camel case names also
    in parts."""
    found: dict[str, None] = {}
    for word in _all_words(text):
        found[word] = None
        if len(found) == MAX_WORDS:
            break
    return frozenset(found) | {stem(word) for word in found}


_ENDINGS = (("ies", "y"), ("s", ""), ("ing", ""), ("ed", ""), ("ly", ""), ("e", ""))
"""Endings of English words, and what takes the place of each; all that fit are taken off."""
_STEM_CHARS = 3


def stem(word: str) -> str:
    """Return the word without its ending: measures, measured and measuring have one stem. It need
    not be a word, but is the same for both databases."""
    for ending, instead in _ENDINGS:
        rest = word.removesuffix(ending)
        is_stem = len(rest) >= _STEM_CHARS and not set(rest).isdisjoint("aeiouy")
        if rest != word and is_stem and not (ending == "s" and rest[-1] in "sui"):
            word = rest + instead
    is_doubled = len(word) > _STEM_CHARS and word[-1] == word[-2] and word[-1] not in "lsz"
    return word[:-1] if is_doubled and word.isalpha() else word


SLIP_CHARS = 4
"""Least number of characters of a word in which a slip is forgiven."""


def slips(word: str) -> tuple[str, ...]:
    """Return patterns of SQL for a word without one slip of the typist; none for short words."""
    if not SLIP_CHARS <= len(word) <= WORD_CHARS:
        return ()
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    wrong = [f"{head}_{tail[1:]}" for head, tail in cuts if tail]
    missing = [f"{head}_{tail}" for head, tail in cuts]
    too_many = [head + tail[1:] for head, tail in cuts if tail]
    turned = [head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1]
    return tuple(dict.fromkeys((*wrong, *missing, *too_many, *turned)))


def _all_words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        for part in {word, *_HUMPS.split(word)}:
            yield part[:WORD_CHARS].casefold()[:WORD_CHARS]
        for letter in _UNSPACED.finditer(word):
            at = letter.start()  # cut first: each letter begins a word
            yield word[at : at + WORD_CHARS].casefold()[:WORD_CHARS]


MAX_WORD_COLUMN_CHARS = 200


overviews = sa.Table(
    "overviews",
    metadata,
    of_dataset(),
    sa.Column("head", HashColumn, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("data_size", sa.BigInteger, nullable=False),
    sa.Column("blocks", sa.BigInteger, nullable=False),
    sa.Column("updated_at", InstantColumn, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("license", sa.Text),
    sa.Column("keywords", sa.JSON, nullable=False),
    sa.Column("added", sa.JSON),
)

overview_words = sa.Table(
    "overview_words",
    metadata,
    of_dataset(),
    sa.Column("is_keyword", sa.Boolean, primary_key=True),
    sa.Column("word", by_bytes(MAX_WORD_COLUMN_CHARS), primary_key=True),
    sa.Index("ix_overview_words_word", "is_keyword", "word", "dataset"),
)
"""Folded words of descriptions, keywords, licenses and columns, and their stems. If `is_keyword`,
the word is a whole keyword."""


_D, _O, _W = datasets.c, overviews.c, overview_words.c
_ITS_HEAD = sa.and_(refs.c.dataset == _D.id, refs.c.name == HEAD)
_BEHIND_ALL = "\U0010ffff"
"""Sorts after every letter, so that words with a given beginning are a range of the index."""
_SAID = tuple(field.name for field in fields(Overview) if field.compare)
"""Columns that have the same names as the fields of `Overview`."""
_VALUES: dict[SortBy, sa.ColumnElement[Any]] = {
    SortBy.NAME: _D.alias_folded,
    SortBy.UPDATED: sa.func.coalesce(_O.updated_at, _D.created_at),
    SortBy.ROWS: sa.func.coalesce(_O.records, 0),
    SortBy.BYTES: sa.func.coalesce(_O.data_size, 0),
}


IS_NAME, IN_NAME, IS_KEYWORD, IS_WORD, BEGINS_WORD = 16, 8, 4, 2, 1
"""What the place of a word of a search counts: a name, a part of one, a keyword, a word of a text,
the begin or the stem of one."""


class OverviewStore:
    """Lists of the datasets that a caller may read, filtered, ordered and counted without their
    chains, by overviews that are updated after heads have moved."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def page(
        self,
        wanted: WantedOverviews,
        order: ListOrder = ListOrder(),
        *,
        after: After | None = None,
        skip: int = 0,
        limit: int = 100,
    ) -> Sequence[ListedOverview]:
        """Return up to `limit` datasets after position `after`, skipping the first `skip`."""
        if after is not None and not storable(after.alias):
            return []
        fit = _fit(wanted.words)
        by = fit if order.by is SortBy.RELEVANCE else _VALUES[order.by]
        # sort ids only; rows with long descriptions are read just for one page
        chosen = (
            sa.select(_D.id)
            .outerjoin(overviews, _O.dataset == _D.id)
            .where(*_conditions(wanted), *([] if after is None else [_behind(order, by, after)]))
            .order_by(*_ordered(order, by))
            .offset(skip)
            .limit(limit)
        )
        query = (
            sa.select(datasets, refs.c.hash.label("its_head"), overviews, fit.label("its_fit"))
            .join(refs, _ITS_HEAD)
            .outerjoin(overviews, _O.dataset == _D.id)
            .where(_D.id.in_(chosen))
            .order_by(*_ordered(order, by))
        )
        with reading(self._engine) as db:
            return [_listed(row) for row in db.execute(query).mappings()]

    def count(self, wanted: WantedOverviews) -> int:
        """Return the number of datasets on all pages together."""
        query = sa.select(sa.func.count()).select_from(datasets).where(*_conditions(wanted))
        with reading(self._engine) as db:
            return int(db.execute(query).scalar_one())

    def facets(
        self, wanted: WantedOverviews, times: Sequence[Instant] = (), *, limit: int = 8
    ) -> Facets:
        """Return the most frequent values of the datasets of a list, and how many of these changed
        since each of some times."""
        its = (
            sa.select(_D.id, _D.kind, _D.account_folded, _O.license, _O.updated_at)
            .outerjoin(overviews, _O.dataset == _D.id)
            .where(*_conditions(wanted))
            .cte("its")
        )
        keyword = sa.select(_W.word.label("keyword")).where(
            _W.is_keyword, _W.dataset.in_(sa.select(its.c.id))
        )
        columns = {
            "kind": its.c.kind,
            "license": its.c.license,
            "account": its.c.account_folded,
            "keyword": keyword.subquery().c.keyword,
        }
        amount = sa.func.count()
        counted = [
            sa.select(sa.literal(name), sa.cast(value, sa.Text), amount)
            .where(value.is_not(None))
            .group_by(value)
            for name, value in columns.items()
        ]
        since = [
            sa.select(sa.literal(f"{at:02}"), sa.literal(""), amount).where(
                its.c.updated_at >= sa.literal(time, _O.updated_at.type)
            )
            for at, time in enumerate(times)
        ]
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        with reading(self._engine) as db:
            for name, value, count in db.execute(sa.union_all(*counted, *since)):
                found[name].append((value, count))
        frequent = {
            name: tuple(sorted(found[name], key=lambda one: (-one[1], one[0]))[:limit])
            for name in columns
        }
        changed = tuple(found[f"{at:02}"][0][1] for at in range(len(times)))
        return Facets(**frequent, changed=changed)

    def due(self, *, limit: int = 100) -> Sequence[DatasetId]:
        """Return datasets whose overview does not match their head."""
        query = (
            sa.select(refs.c.dataset)
            .outerjoin(overviews, _O.dataset == refs.c.dataset)
            .where(refs.c.name == HEAD, _O.head.is_distinct_from(refs.c.hash))
            .limit(limit)
        )
        with reading(self._engine) as db:
            return list(db.execute(query).scalars())

    def put(self, made: Mapping[DatasetId, Overview]) -> None:
        """Add or replace overviews; ignore those of datasets that were forgotten."""
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


def _conditions(wanted: WantedOverviews) -> list[sa.ColumnElement[bool]]:
    has = _has_nearly if wanted.forgives else _has
    made = [_readable(wanted.readable), *(has(word) for word in wanted.words)]
    if wanted.kind is not None:
        made.append(_D.kind == wanted.kind.value)
    if wanted.account is not None:
        made.append(_equals(_D.account_folded, wanted.account.lower()))
    if wanted.visibility is not None:
        made.append(_D.visibility == wanted.visibility.value)
    if wanted.keyword is not None:
        keyword = _W.is_keyword & _equals(_W.word, keyword_word(wanted.keyword))
        made.append(_D.id.in_(sa.select(_W.dataset).where(keyword)))
    if wanted.license is not None:
        made.append(_D.id.in_(sa.select(_O.dataset).where(_equals(_O.license, wanted.license))))
    if wanted.since is not None:
        late = _O.updated_at >= sa.literal(wanted.since, _O.updated_at.type)
        made.append(_D.id.in_(sa.select(_O.dataset).where(late)))
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
    its = sa.select(_W.dataset).where(
        sa.not_(_W.is_keyword), sa.or_(_begins(word), _W.word == stem(word))
    )
    return sa.or_(
        *(_D.alias_folded.contains(each, autoescape=True) for each in {word, stem(word)}),
        _D.id.in_(its),
    )


def _has_nearly(word: str) -> sa.ColumnElement[bool]:
    """Build the condition for a word with one slip; the first letter of a word counts in texts."""
    patterns = slips(word)
    if not storable(word) or not patterns:
        return _has(word)
    its = sa.select(_W.dataset).where(
        sa.not_(_W.is_keyword), _begins(word[0]), sa.or_(*map(_W.word.like, patterns))
    )
    named = (_D.alias_folded.like(f"%{each}%") for each in patterns)
    return sa.or_(_has(word), *named, _D.id.in_(its))


def _begins(word: str) -> sa.ColumnElement[bool]:
    return (_W.word >= word) & (_W.word < word + _BEHIND_ALL)


def _equals(column: sa.ColumnElement[str], text: str) -> sa.ColumnElement[bool]:
    return column == text if storable(text) else sa.false()


def _fit(words: Sequence[str]) -> sa.ColumnElement[int]:
    """Build the expression for how well a dataset fits the words: the sum of the best place at
    which each of them stands."""
    return sum(map(_place, filter(storable, words)), start=sa.literal(0))


def _place(word: str) -> sa.ColumnElement[int]:
    is_word = sa.select(_W.dataset).where(sa.not_(_W.is_keyword), _W.word == word)
    is_keyword = sa.select(_W.dataset).where(_W.is_keyword, _W.word == word)
    alias = _D.alias_folded
    return sa.case(
        (sa.or_(alias == word, alias.endswith("/" + word, autoescape=True)), IS_NAME),
        (alias.contains(word, autoescape=True), IN_NAME),
        (_D.id.in_(is_keyword), IS_KEYWORD),
        (_D.id.in_(is_word), IS_WORD),
        else_=BEGINS_WORD,
    )


def _ordered(order: ListOrder, value: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    first = value.desc() if order.descending else value.asc()
    return [first] if order.by is SortBy.NAME else [first, _D.alias_folded]


def _behind(order: ListOrder, value: sa.ColumnElement[Any], after: After) -> sa.ColumnElement[bool]:
    alias, behind = _D.alias_folded, _D.alias_folded > after.alias
    if order.by is SortBy.NAME:
        return alias < after.alias if order.descending else behind
    its = sa.literal(after.value, value.type)
    further = value < its if order.descending else value > its
    return sa.or_(further, sa.and_(value == its, behind))


def _columns(overview: Overview) -> dict[str, Any]:
    return {name: getattr(overview, name) for name in _SAID}


def _words(dataset: DatasetId, overview: Overview) -> list[dict[str, Any]]:
    texts = (*overview.keywords, overview.license, overview.description, *overview.columns)
    words = indexed_words(" ".join(text for text in texts if text))
    keywords = {keyword_word(one) for one in overview.keywords}
    return [
        {"dataset": dataset, "is_keyword": is_keyword, "word": word}
        for is_keyword, several in ((False, words), (True, keywords))
        for word in sorted(several)
    ]


def keyword_word(text: str) -> str:
    """Return a keyword in the form that is stored and compared: folded, with single spaces."""
    return " ".join(text.casefold().split())[:MAX_WORD_COLUMN_CHARS]


def _listed(row: sa.RowMapping) -> ListedOverview:
    overview = None
    if row[_O.dataset] is not None:
        said = {name: row[_O[name]] for name in _SAID}
        lists = {name: tuple(said[name] or ()) for name in ("keywords", "added")}
        overview = Overview(**{**said, **lists})
    return ListedOverview(entry_of(row), row["its_head"], overview, row["its_fit"])
