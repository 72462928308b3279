"""What a store of overviews promises. Subclasses give `stores`."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from chain_maker import NOON, chain, entry, linked

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DatasetKind, SetInfo
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.overviews import (
    After,
    ListedOverview,
    ListOrder,
    Overview,
    Readable,
    SortBy,
    WantedOverviews,
)
from odf_storage.stores.ports.values import Account, AccountId, Role, Visibility
from odf_storage.stores.registers.datasets.overviews import words_of

ANNA = Account(AccountId("did:odf:anna"), "Anna")
ALL = Readable(everything=True)
ODD = ["%", "_", "' or 1=1 --", '"', "\\", "\0", "\ud800", "%' escape '"]


def dataset(
    stores: Stores,
    alias: str = "kamu/foo",
    visibility: Visibility = Visibility.PUBLIC,
    kind: DatasetKind = DatasetKind.Root,
) -> DatasetId:
    made = replace(entry(alias, kind=kind), visibility=visibility)
    stores.registry.create(made, blocks=chain(made.id)[0])
    return made.id


def told(stores: Stores, of: DatasetId, **said: object) -> Overview:
    usual = {"records": 1, "data_size": 2, "blocks": 3, "updated_at": NOON}
    made = Overview(head=stores.refs.head(of), **{**usual, **said})  # type: ignore[arg-type]
    stores.overviews.put({of: made})
    return made


def names(found: list[ListedOverview]) -> list[str]:
    return [str(listed.entry.alias) for listed in found]


def found(stores: Stores, readable: Readable = ALL, **wanted: object) -> list[str]:
    asked = WantedOverviews(readable=readable, **wanted)  # type: ignore[arg-type]
    shown = names(list(stores.overviews.page(asked)))
    assert stores.overviews.count(asked) == len(shown)
    return shown


def searched(stores: Stores, text: str) -> list[str]:
    return found(stores, words=words_of(text))


class OverviewStoreContract:
    def test_an_overview_is_listed_as_it_was_put(self, stores: Stores) -> None:
        mine = dataset(stores)
        put = told(
            stores,
            mine,
            description="Ten 'rows'",
            license="CC-BY",
            keywords=("a b", "Wetter"),
            added=(3, 2),
        )
        [listed] = stores.overviews.page(WantedOverviews(readable=ALL))
        assert listed.overview == put
        assert (listed.entry.id, listed.head) == (mine, put.head)
        newer = told(stores, mine, records=2**63 - 1)
        [listed] = stores.overviews.page(WantedOverviews(readable=ALL))
        assert listed.overview == newer

    def test_a_dataset_without_an_overview_is_listed_all_the_same(self, stores: Stores) -> None:
        dataset(stores)
        for order in itertools.product(SortBy, (False, True)):
            [listed] = stores.overviews.page(WantedOverviews(readable=ALL), ListOrder(*order))
            assert listed.overview is None
        assert searched(stores, "foo") == ["kamu/foo"]

    def test_what_has_no_overview_of_its_head_is_due(self, stores: Stores) -> None:
        mine, other = dataset(stores), dataset(stores, "kamu/other")
        assert set(stores.overviews.due()) == {mine, other}
        assert len(stores.overviews.due(limit=1)) == 1
        told(stores, other)
        told(stores, mine)
        assert stores.overviews.due() == []
        last = stores.blocks.find(mine, stores.refs.head(mine))
        more = linked(last, SetInfo(description="more"))
        stores.refs.move(mine, expected=more.prev, new=more.hash, blocks=[more])
        assert stores.overviews.due() == [mine]

    def test_overviews_go_with_their_datasets(self, stores: Stores) -> None:
        mine = dataset(stores)
        put = told(stores, mine, keywords=("gone",))
        stores.registry.forget(mine)
        assert found(stores) == []
        stores.overviews.put({mine: put})
        stores.overviews.put({})
        assert stores.overviews.due() == []

    @pytest.mark.parametrize(
        ("search", "expected"),
        [
            ("flights", ["kamu/nyc-flights13"]),
            ("FLIGHTS nyc", ["kamu/nyc-flights13"]),
            ("nyc-flights13", ["kamu/nyc-flights13"]),
            ("lights", ["kamu/nyc-flights13"]),
            ("departures", ["kamu/nyc-flights13"]),
            ("depart", ["kamu/nyc-flights13"]),
            ("parture", []),
            ("departures tulips", []),
            ("tulips", ["anna/flowers"]),
            ("anna", ["anna/flowers"]),
            ("weather station", ["anna/flowers"]),
            ("STRASSE", ["anna/flowers"]),
            ("trip", ["anna/flowers"]),
            ("stations", ["anna/flowers"]),
            ("aviations", ["kamu/nyc-flights13"]),
            ("flightless", []),
            ("cc-by", ["anna/flowers"]),
            ("cloudCover", ["anna/flowers"]),
            ("covers", ["anna/flowers"]),
            ("id measured", ["anna/flowers"]),
            ("京都", ["anna/flowers"]),
            ("kamu", ["kamu/nyc-flights13"]),
        ],
    )
    def test_all_words_of_a_search_are_in_name_description_or_keywords(
        self, stores: Stores, search: str, expected: list[str]
    ) -> None:
        one, two = dataset(stores, "kamu/nyc-flights13"), dataset(stores, "anna/flowers")
        told(stores, one, description="All departures, %d of them_", keywords=("aviation",))
        said = ("Tulips & TaxiTrips", "weather station", "Straße")
        columns = ("cloudCover", "station_id", "measuring")
        about = {"license": "CC-BY-4.0", "columns": columns}
        told(stores, two, description="東京都の花", keywords=said, **about)
        assert searched(stores, search) == expected

    @pytest.mark.parametrize(
        ("search", "expected"),
        [
            ("flihgts", ["kamu/nyc-flights13"]),
            ("flghts nyc", ["kamu/nyc-flights13"]),
            ("depaartures", ["kamu/nyc-flights13"]),
            ("departurez", ["kamu/nyc-flights13"]),
            ("xlights", ["kamu/nyc-flights13"]),
            ("flgiths", []),
            ("nyz", []),
            ("xepartures", []),
            ("depa_tures", []),
        ],
    )
    def test_a_slip_in_a_word_is_forgiven_if_that_is_asked_for(
        self, stores: Stores, search: str, expected: list[str]
    ) -> None:
        told(stores, dataset(stores, "kamu/nyc-flights13"), description="All departures")
        dataset(stores, "kamu/other")
        assert searched(stores, search) == []
        assert found(stores, words=words_of(search), forgives=True) == expected

    def test_what_a_search_finds_has_one_order_whatever_the_database_sorts_by(
        self, stores: Stores
    ) -> None:
        written = ["kamu/b.c", "Kamu/a-b", "kamu/Ab", "kamu/a.b", "kamu/b", "anna/b", "kamu/ab-2"]
        for at, name in enumerate(written):
            of = dataset(stores, name)
            told(stores, of, description="Ähre, ähnlich, zebra", records=at % 2)
        by_name = ["anna/b", "Kamu/a-b", "kamu/a.b", "kamu/Ab", "kamu/ab-2", "kamu/b", "kamu/b.c"]
        for text in ("zebra", "ÄHRE", "ähnlich zebras"):
            assert searched(stores, text) == by_name
        wanted = WantedOverviews(readable=ALL, words=words_of("zebra"))
        by_rows = names(list(stores.overviews.page(wanted, ListOrder(SortBy.ROWS, True))))
        more = [each for each in by_name if written.index(each) % 2]
        assert by_rows == more + [each for each in by_name if each not in more]
        forgiven = WantedOverviews(readable=ALL, words=words_of("zbera"), forgives=True)
        assert names(list(stores.overviews.page(forgiven))) == by_name

    def test_a_search_lists_what_fits_it_best_first(self, stores: Stores) -> None:
        says = {
            "kamu/a-begin": {"description": "taxis of Rome"},
            "kamu/b-text": {"description": "each taxi of Rome"},
            "kamu/c-keyword": {"keywords": ("Taxi",)},
            "kamu/d-taxi-trips": {},
            "kamu/taxi": {},
            "kamu/e-taxi-trips": {"columns": ("fare", "trips")},
        }
        for name, said in says.items():
            told(stores, dataset(stores, name), **said)
        wanted = WantedOverviews(readable=ALL, words=words_of("taxi"))
        order = ListOrder(SortBy.RELEVANCE, descending=True)
        best = ["kamu/taxi", "kamu/d-taxi-trips", "kamu/e-taxi-trips"]
        best += ["kamu/c-keyword", "kamu/b-text", "kamu/a-begin"]
        whole = list(stores.overviews.page(wanted, order))
        assert names(whole) == best
        seen: list[ListedOverview] = []
        while page := stores.overviews.page(
            wanted, order, after=_behind(seen, SortBy.RELEVANCE), limit=2
        ):
            seen += page
        assert seen == whole
        both = WantedOverviews(readable=ALL, words=words_of("trips fare"))
        assert names(list(stores.overviews.page(both, order))) == ["kamu/e-taxi-trips"]

    @pytest.mark.parametrize("text", [*ODD, "x" * 10_000, "\U0010ffff"])
    def test_odd_texts_find_what_they_are_in_and_harm_nothing(
        self, stores: Stores, text: str
    ) -> None:
        told(stores, dataset(stores), description="100 % _ sure")
        assert found(stores, words=(text,)) == (["kamu/foo"] if text == "" else [])
        assert found(stores, words=(text,), forgives=True) == []
        assert found(stores, license=text) == []
        assert found(stores, keyword=text) == []
        assert found(stores, account=text) == []
        page = stores.overviews.page(WantedOverviews(readable=ALL), after=After(text))
        assert names(list(page)) in ([], ["kamu/foo"])

    def test_filters_take_together(self, stores: Stores) -> None:
        one = dataset(stores, "Kamu/one", Visibility.PRIVATE)
        dataset(stores, "kamu/two", kind=DatasetKind.Derivative)
        dataset(stores, "anna/three")
        told(stores, one, keywords=("Open  Data",))
        assert found(stores, account="KAMU") == ["Kamu/one", "kamu/two"]
        assert found(stores, kind=DatasetKind.Derivative) == ["kamu/two"]
        assert found(stores, visibility=Visibility.PRIVATE) == ["Kamu/one"]
        assert found(stores, keyword="open data") == ["Kamu/one"]
        assert found(stores, keyword="open") == []
        assert found(stores, keyword="open data", account="anna") == []
        told(stores, one, license="CC0")
        assert found(stores, license="CC0") == ["Kamu/one"]
        assert found(stores, license="cc0") == []
        assert found(stores, since=NOON) == ["Kamu/one"]
        assert found(stores, since=Instant(NOON.ns + 1)) == []

    def test_facets_count_the_datasets_of_a_list(self, stores: Stores) -> None:
        first = dataset(stores, "kamu/one", Visibility.PRIVATE)
        second = dataset(stores, "anna/two")
        dataset(stores, "anna/three", kind=DatasetKind.Derivative)
        told(stores, first, license="CC0", keywords=("Sea", "air"))
        told(stores, second, license="CC0", keywords=("sea",), updated_at=Instant(NOON.ns - 1))
        times = (NOON, Instant(NOON.ns - 1))
        all_ = stores.overviews.facets(WantedOverviews(readable=ALL), times)
        assert all_.kind == (("Root", 2), ("Derivative", 1))
        assert all_.license == (("CC0", 2),)
        assert all_.account == (("anna", 2), ("kamu", 1))
        assert all_.keyword == (("sea", 2), ("air", 1))
        assert all_.changed == (1, 2)
        public = stores.overviews.facets(WantedOverviews(readable=Readable(), keyword="sea"))
        assert (public.account, public.keyword, public.changed) == (
            (("anna", 1),),
            (("sea", 1),),
            (),
        )
        few = stores.overviews.facets(WantedOverviews(readable=ALL), limit=1)
        assert few.keyword == (("sea", 2),)

    def test_only_what_is_readable_is_listed_and_counted(self, stores: Stores) -> None:
        stores.accounts.put_account(ANNA)
        dataset(stores, "kamu/public")
        secret = dataset(stores, "kamu/secret", Visibility.PRIVATE)
        shared = dataset(stores, "kamu/shared", Visibility.PRIVATE)
        own = dataset(stores, "anna/own", Visibility.PRIVATE)
        stores.roles.put(shared, ANNA.id, Role.READER)
        assert found(stores, Readable()) == ["kamu/public"]
        assert found(stores, Readable(datasets=(secret,))) == ["kamu/public", "kamu/secret"]
        held = {"account": "anna", "roles_of": ANNA.id}
        assert found(stores, Readable(**held)) == ["anna/own", "kamu/public", "kamu/shared"]
        assert found(stores, Readable(account="anna")) == ["anna/own", "kamu/public"]
        for within, shown in ((own, "anna/own"), (shared, "kamu/shared")):
            few = Readable(**held, within=within)
            assert found(stores, few) == sorted(["kamu/public", shown])
        assert found(stores, Readable(**held, within=secret)) == ["kamu/public"]

    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize("by", list(SortBy))
    def test_pages_in_every_order_hold_each_dataset_once(
        self, stores: Stores, by: SortBy, descending: bool
    ) -> None:
        for number in range(7):
            of = dataset(stores, f"kamu/set-{number}")
            at = Instant(NOON.ns + NANOS * (number % 3))
            if number:
                told(stores, of, records=number % 3, data_size=number % 2, updated_at=at)
        wanted, order = WantedOverviews(readable=ALL), ListOrder(by, descending)
        whole = list(stores.overviews.page(wanted, order))
        assert len(whole) == stores.overviews.count(wanted) == 7
        values = [_value(listed, by) for listed in whole]
        assert values == sorted(values, reverse=descending)
        seen: list[ListedOverview] = []
        while page := stores.overviews.page(wanted, order, after=_behind(seen, by), limit=2):
            seen += page
        assert names(seen) == names(whole)
        skipped = stores.overviews.page(wanted, order, skip=3, limit=2)
        assert names(list(skipped)) == names(whole)[3:5]


def _value(listed: ListedOverview, by: SortBy) -> object:
    said = listed.overview
    match by:
        case SortBy.NAME:
            return listed.entry.alias.folded
        case SortBy.UPDATED:
            return listed.entry.created_at if said is None else said.updated_at
        case SortBy.ROWS:
            return 0 if said is None else said.records
        case SortBy.BYTES:
            return 0 if said is None else said.data_size
        case SortBy.RELEVANCE:
            return listed.fit


def _behind(seen: list[ListedOverview], by: SortBy) -> After | None:
    if not seen:
        return None
    value = None if by is SortBy.NAME else _value(seen[-1], by)
    return After(seen[-1].entry.alias.folded, value)  # type: ignore[arg-type]
