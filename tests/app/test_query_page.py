"""The form of queries on the page of a dataset, without JavaScript."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from page_sets import EVIL, corrected, hostile, of_table, stations, wide
from service import seeded, serving, ten_rows

from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
QUERY = 'select city, population * 2 as doubled from city where "offset" > 7'


LOOKED_AT = {
    "stations": stations(),
    "hostile": hostile(),
    "corrected": corrected(),
    "wide": wide(),
    "empty": seeded(),
    "named": of_table(
        {
            "month": ["a", "b", 'c"d', None] * 9,
            "row_count": [n / 7 for n in range(36)],
            "total": [2**62] * 36,
            "select": [True, False, None] * 12,
        }
    ),
    "typed": of_table(
        {
            "tiny": pa.array([-1, 2, 3] * 9, pa.int8()),
            "huge": pa.array([2**64 - 1, 1, 0] * 9, pa.uint64()),
            "kind": pa.array([b"x", b"y", b"z"] * 9, pa.binary()),
            "hour": pa.array([1, 2, 3] * 9, pa.time32("ms")),
            "gone": pa.array([None] * 27, pa.string()),
        }
    ),
    "one": of_table({"v": [1.5]}),
    "places": of_table({"lat": [60.1, 60.2, 60.3], "lon": [24.1, 24.2, 24.3]}),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("pages") / "node") as service:
        service.keep(ten_rows(), "kamu/city")
        service.keep(ten_rows(), "kamu/secret", Visibility.PRIVATE)
        for name, chain in LOOKED_AT.items():
            service.keep(chain, f"kamu/{name}")
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


def examples(text: str) -> dict[str, str]:
    part = re.search(r"<p>Try:(.*?)</p>", text, re.DOTALL)
    links = [] if part is None else re.findall(r'href="([^"]+)"[^>]*>([^<]*)</a>', part[1])
    return {unescape(words): unescape(link) for link, words in links}


def of_columns(text: str) -> list[str]:
    part = re.search(r'<ul class="names">(.*?)</ul>', text, re.DOTALL)
    return (
        [] if part is None else [unescape(each) for each in re.findall(r'href="([^"]+)"', part[1])]
    )


def test_examples_are_made_of_the_columns_that_tell_most(visitor):
    assert [*examples(visitor.get("/stations").text)] == [
        "the newest rows",
        "rows by station",
        "temp by month",
    ]
    assert [*examples(visitor.get("/one").text)] == ["the newest rows"]
    assert examples(visitor.get("/empty").text) == {}


@pytest.mark.parametrize("name", [name for name in LOOKED_AT if name != "empty"])
def test_each_example_and_each_link_of_a_column_runs(visitor, name):
    text = visitor.get(f"/{name}").text
    links = [*examples(text).values(), *of_columns(text)[:12]]
    assert len(links) >= (2 if name == "wide" else 4)  # a wide one has columns above the form only
    for link in links:
        answer = visitor.get(link)
        assert "Rows of the query" in answer.text, (link, answer.text)
        assert EVIL not in answer.text


def test_the_address_of_an_example_has_the_name_of_today(visitor, node):
    visitor.get("/one")
    with node.http(node.token()) as owner:
        assert owner.put("/one/name", json={"name": "other"}).status_code == 200
        assert "%22other%22" in str(examples(visitor.get("/other").text))
        assert owner.put("/other/name", json={"name": "one"}).status_code == 200


def chart(visitor: Any, query: str) -> str:
    text = visitor.get("/stations", params={"query": query}).text
    part = re.search(r'aria-label="Chart of the answer">(.*?)</section>', text, re.DOTALL)
    assert "Rows of the query" in text, text
    return "" if part is None else part[1]


def test_the_chart_of_an_answer_follows_its_types(visitor):
    bars = chart(visitor, "select station, count(*) as n from stations group by 1")
    assert "n by station" in bars
    assert '<th scope="row" title="Oslo">' in bars
    line = chart(visitor, "select day, avg(temp) as mean from stations group by 1 order by 1")
    assert "mean over day" in line
    assert 'class="line"' in line
    places = chart(visitor, "select lat, lon from places")
    assert 'class="map"' in places


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as a",
        "select station from stations",
        "select station, temp from stations where false",
        "select 'a' as t, -1 as n union all select 'b', 2",
        "select 'a' as t, cast('NaN' as double) as n union all select 'b', null",
        "select tags, position from stations",
    ],
)
def test_what_cannot_be_drawn_of_an_answer_is_only_a_table(visitor, query):
    assert chart(visitor, query) == ""


def test_labels_of_a_chart_are_text(visitor):
    found = chart(visitor, f"select '{EVIL}' as a, 1 as n union all select 'x', 3")
    assert EVIL not in found
    assert "&lt;script&gt;" in found


def test_an_error_shows_its_place_and_the_nearest_name(visitor):
    text = visitor.get("/stations", params={"query": "select station,\n  tmp\nfrom stations"}).text
    assert "Did you mean &#34;temp&#34;?" in text
    assert re.search(r'<pre class="place" tabindex="0">  tmp\n  \^</pre>', text)
