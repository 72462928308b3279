"""The form of queries on the page of a dataset, without JavaScript."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from service import serving, ten_rows

from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
QUERY = 'select city, population * 2 as doubled from city where "offset" > 7'


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("pages") / "node") as service:
        service.keep(ten_rows(), "kamu/city")
        service.keep(ten_rows(), "kamu/secret", Visibility.PRIVATE)
        yield service


@pytest.fixture
def visitor(node: Any) -> Any:
    with node.http() as client:
        client.headers.update(HTML)
        yield client


def test_a_page_proposes_a_query_and_asks_nothing(visitor):
    text = visitor.get("/city").text
    assert "select * from &#34;city&#34; order by" in text
    assert "Rows of the query" not in text


def test_the_address_of_the_page_is_a_link_to_the_query_and_its_rows(visitor):
    text = visitor.get("/city", params={"query": QUERY}).text
    assert "population * 2 as doubled" in text
    shown = text[text.index("Rows of the query") :]
    assert '<th scope="col" class="number">doubled</th>' in shown
    assert "<td>c9</td>" in shown
    assert '<td class="number">1800</td>' in shown
    assert "city as of" in shown


def test_rows_are_taken_along_by_links_of_the_page(visitor):
    text = visitor.get("/city", params={"query": QUERY}).text
    links = re.findall(r'href="(/city\?query=[^"]+)" download', text)
    assert len(links) == 4
    csv = next(link for link in links if link.endswith("csv"))
    answer = visitor.get(unquote(csv).replace("&amp;", "&").replace("+", " "))
    assert answer.headers["content-disposition"] == 'attachment; filename="rows.csv"'
    assert answer.text.splitlines() == ["city,doubled", "c8,1600", "c9,1800"]


def test_what_is_wrong_with_a_query_is_shown_escaped(visitor):
    answer = visitor.get("/city", params={"query": 'select "<b>" from city'})
    assert answer.status_code == 200
    assert "No field named &#34;&lt;b&gt;&#34;" in answer.text
    assert "<b>&#34;" not in answer.text


def test_values_are_escaped(visitor):
    text = visitor.get("/city", params={"query": "select '<script>x</script>' as a"}).text
    assert "<script>x" not in text
    assert "&lt;script&gt;x" in text


def test_a_visitor_asks_nothing_of_what_is_hidden(visitor):
    text = visitor.get("/city", params={"query": "select * from secret"}).text
    assert "kamu.kamu.secret" in text
    assert "not found" in text
