"""The front page: what is found, in which order, on which page, and what there is to do next."""

from __future__ import annotations

import re
from html import unescape

import pytest
import sqlalchemy as sa
from service import seeded, serving, ten_rows

from odf_node.service.pages.frame.render import pages
from odf_protocol.identity import DatasetAlias
from odf_protocol.metadata.events import DatasetKind, SetInfo, SetLicense
from odf_storage.datasets.node.overviews import bring_up
from odf_storage.stores.index.sql import entry_row
from odf_storage.stores.index.sql_blocks import insert_blocks
from odf_storage.stores.ports.values import DatasetEntry, Visibility
from odf_storage.stores.sql.engine import writing
from odf_storage.stores.sql.tables import datasets, refs

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("home"), tenancy="multi") as service:
        chain = ten_rows()
        chain.add(SetInfo(description="Departures <b>& more</b>", keywords=("air & sea", "nyc")))
        chain.add(SetLicense(short_name="CC-BY", name="By", website_url="https://example.org"))
        service.keep(chain, "anna/flights")
        for number in range(60):
            service.keep(seeded(), f"bert/set-{number:02}")
        service.keep(seeded(), "bert/hidden", Visibility.PRIVATE)
        while bring_up(service.node.stores):
            pass
        yield service


@pytest.fixture
def visitor(node):
    with node.http() as client:
        client.headers.update(HTML)
        yield client


def listed(text: str) -> list[str]:
    return re.findall(r'<td class="name"><a href="/([^"]+)"', text)


def test_the_list_is_a_table_or_cards_and_stays_so_through_its_links(visitor):
    table = visitor.get("/?search=set").text
    assert '<table class="list">' in table
    switch = re.search('class="switch"><a href="([^"]+)"', table)
    assert switch is not None
    cards = visitor.get(unescape(switch[1])).text
    assert '<table class="list cards">' in cards
    assert listed(cards) == listed(table)
    assert "1 to 50 here" in cards
    assert '<input type="hidden" name="view" value="cards">' in cards
    following = re.search('<a href="([^"]+)" rel="next"', cards)
    assert following is not None
    assert '<table class="list cards">' in visitor.get(unescape(following[1])).text
    assert '<table class="list">' in visitor.get("/?view=odd").text
    assert visitor.get("/?view=cards&since=never").status_code == 400
    assert '<table class="list cards">' in visitor.get("/v/accounts/bert?view=cards").text


def test_rows_size_licence_keywords_and_age_are_shown(visitor):
    shown = visitor.get("/?search=flights").text
    assert listed(shown) == ["anna/flights"]
    assert "1 dataset found" in shown
    for text in (
        "Departures &lt;b&gt;&amp; more",
        ">10</td>",
        "CC-BY",
        "/?keyword=air%20%26%20sea",
    ):
        assert text in shown
    assert '<time datetime="2050-01-01' in shown


def test_the_list_is_on_numbered_pages_that_keep_what_was_asked(visitor):
    first = visitor.get("/?search=set&sort=name")
    assert "60 datasets found" in first.text
    assert "1 to 50 here" in first.text
    link = re.search(r'<a href="([^"]+)" rel="next">', first.text)[1].replace("&amp;", "&")
    assert link == "/?search=set&sort=name&page=2"
    second = visitor.get(link).text
    assert listed(second) == [f"bert/set-{number}" for number in range(50, 60)]
    assert '<b aria-current="page">2</b>' in second
    assert 'rel="next"' not in second
    assert len(set(listed(first.text) + listed(second))) == 60


def test_heads_of_columns_order_the_list_and_turn_it(visitor):
    shown = visitor.get("/").text
    link = re.search(r'<a href="([^"]+)">Rows', shown)[1].replace("&amp;", "&")
    most = visitor.get(link).text
    assert listed(most)[0] == "anna/flights"
    assert 'aria-sort="descending"' in most
    turned = re.search(r'<a href="([^"]+)">Rows', most)[1].replace("&amp;", "&")
    assert "anna/flights" not in listed(visitor.get(turned).text)


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "page=" + "9" * 30, "sort=colour", "search=" + "x" * 999]
)
def test_what_cannot_be_asked_is_told_above_the_form(visitor, query):
    answer = visitor.get(f"/?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert '<form role="search"' in answer.text


def test_a_page_behind_the_last_leads_back(visitor):
    assert "no such page" in visitor.get("/?page=99").text


def test_a_search_without_a_find_says_what_to_try(visitor):
    shown = visitor.get("/?search=zebra").text
    assert "0 datasets found" in shown
    assert "fewer or shorter words" in shown
    assert "/v/sign-in" in shown


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x>', "%", "_", "\x00"])
def test_what_a_visitor_types_is_text(visitor, text):
    shown = visitor.get("/", params={"search": text}).text
    assert "<script>alert" not in shown
    assert "<img" not in shown


def test_an_empty_node_says_how_to_publish(tmp_path):
    with serving(tmp_path) as service, service.http() as client:
        shown = client.get("/", headers=HTML).text
    assert "odf-node dataset create" in shown
    assert 'href="/v/publish"' in shown
    assert "Next" not in shown


def test_a_filter_by_account_leads_to_the_page_of_the_account(visitor):
    assert 'href="/v/accounts/anna"' in visitor.get("/?account=anna").text


def test_what_is_hidden_is_neither_listed_nor_counted(visitor, node):
    assert "61 datasets" in visitor.get("/").text
    assert "0 datasets found" in visitor.get("/?search=hidden").text
    visitor.post("/v/sign-in", data={"token": node.token("bert")})
    assert listed(visitor.get("/?visibility=private").text) == ["bert/hidden"]


def narrowed(text: str, title: str) -> dict[str, tuple[str, str]]:
    """Counts and links of the choices of a facet."""
    part = re.search(rf"<summary>{title}</summary>(.*?)</details>", text, re.DOTALL)
    line = r'href="([^"]+)"[^>]*>([^<]*)</a>(?: <span class="quiet">([\d,]+))?'
    found = re.findall(line, part[1] if part else "")
    return {unescape(words): (count, unescape(link)) for link, words, count in found}


def test_facets_narrow_the_list_down_and_let_it_go_again(visitor):
    shown = visitor.get("/").text
    assert narrowed(shown, "Account")["bert"][0] == "60"
    count, link = narrowed(shown, "Keyword").get("nyc", ("", ""))
    assert (count, link) == ("1", "/?keyword=nyc")
    some = visitor.get(narrowed(shown, "Account")["anna"][1]).text
    assert listed(some) == ["anna/flights"]
    assert narrowed(some, "Account")["without “anna”"] == ("", "/")
    assert narrowed(shown, "Kind") == {}  # all are roots
    assert 'name="license" value="CC-BY"' in visitor.get("/?license=CC-BY").text


def test_a_search_finds_columns_licences_other_forms_of_words_and_forgives_a_slip(visitor):
    for words in ("population", "cc-by", "populations departure", "flihgts"):
        shown = visitor.get("/", params={"search": words}).text
        assert listed(shown) == ["anna/flights"], words
        assert ("differ in one letter" in shown) == (words == "flihgts")


def test_the_time_of_a_change_is_a_day(visitor):
    assert "61 datasets found" in visitor.get("/?since=2020-01-01").text
    assert "0 datasets found" in visitor.get("/?since=2999-01-01").text
    assert visitor.get("/?since=tomorrow").status_code == 400


def test_facets_of_a_list_are_counted_once_for_all_visitors(visitor, node, monkeypatch):
    visitor.get("/?keyword=nyc")
    monkeypatch.setattr(node.node.stores.overviews, "facets", None)
    assert visitor.get("/?keyword=nyc").status_code == 200


def test_what_is_hidden_is_in_no_facet_of_others(visitor, node):
    visitor.get("/")
    assert narrowed(visitor.get("/").text, "Account")["bert"][0] == "60"
    visitor.post("/v/sign-in", data={"token": node.token("bert")})
    assert narrowed(visitor.get("/").text, "Account")["bert"][0] == "61"
    visitor.post("/v/sign-out")


def test_the_newest_blocks_are_drawn_if_there_are_several(tmp_path):
    with serving(tmp_path) as service, service.http() as client:
        chain = ten_rows()
        chain.add_rows(5)
        service.keep(chain, "kamu/drawn")
        service.keep(ten_rows(), "kamu/once")
        while bring_up(service.node.stores):
            pass
        shown = client.get("/", headers=HTML).text
    assert shown.count('<svg class="bars"') == 1


def test_pages_between_the_first_and_those_around_the_shown_are_left_out():
    numbers = [one and one.number for one in pages(10, 2000, 100, str).numbers]
    assert numbers == [1, None, 8, 9, 10, 11, 12, None, 20]
    assert pages(1, 0, 50, str).numbers == pages(1, 50, 50, str).numbers


def test_each_of_a_thousand_datasets_is_on_one_page_and_a_search_finds_it(tmp_path):
    with serving(tmp_path) as service, service.http() as client:
        client.headers.update(HTML)
        now = service.node.clock()
        with writing(service.node.stores.engine) as db:
            for number in range(1000):
                chain = seeded()
                alias = DatasetAlias.parse(f"kamu/set-{number:03}")
                entry = DatasetEntry(chain.id, alias, DatasetKind.Root, Visibility.PUBLIC, now)
                db.execute(sa.insert(datasets).values(**entry_row(entry)))
                insert_blocks(db, chain.id, chain.blocks)
                db.execute(sa.insert(refs).values(dataset=chain.id, name="head", hash=chain.head))
        first = client.get("/").text
        assert "1,000 datasets" in first
        link, seen = "/", []
        while link is not None:
            shown = client.get(link).text
            seen += listed(shown)
            found = re.search(r'<a href="([^"]+)" rel="next">', shown)
            link = None if found is None else found[1].replace("&amp;", "&")
        assert seen == [f"set-{number:03}" for number in range(1000)]
        assert listed(client.get("/?search=set-777").text) == ["set-777"]
