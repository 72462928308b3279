"""The viewer of rows on pages: order of columns, digits, sorting and filtering without script."""

from __future__ import annotations

import html
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from page_sets import added, corrected, hostile, of_table, stations
from service import serving, ten_rows

from odf_node.service.pages.datasets.viewer import ViewerWish, number_cells

HTML = {"accept": "text/html"}
KINDS = {"a": "Int64", "b": "String"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("viewed")) as service:
        service.keep(stations(), "kamu/stations")
        service.keep(hostile(), "kamu/hostile")
        twice = corrected()
        rest = added(twice, {"city": ["a"], "people": [1]}, [1])
        service.keep(rest, "kamu/corrected")
        service.keep(ten_rows().add_rows(140), "kamu/long")
        odd = {
            'it\'s "odd" & <b>': pa.array(["x", None, "it's 100%"]),
            "v": pa.array([math.nan, math.inf, 0.1 + 0.2]),
            "big": pa.array([2**63 - 1, None, -(2**63)], pa.int64()),
        }
        service.keep(of_table(odd), "kamu/odd")
        yield service


@pytest.fixture
def visitor(node: Any) -> Any:
    with node.http() as client:
        client.headers.update(HTML)
        yield client


def part(text: str, name: str) -> str:
    """The head or the body of the table of rows."""
    rows = text[text.index('class="wide rows"') :]
    return rows[rows.index(f"<{name}>") : rows.index(f"</{name}>")]


def headings(text: str) -> list[str]:
    [head] = re.findall(r"<thead>.*?</thead>", text[text.index('class="wide rows"') :], re.DOTALL)[
        :1
    ]
    return [html.unescape(re.sub("<[^>]*>", "", each)) for each in re.findall("<th .*?</th>", head)]


def cells(text: str) -> list[list[str]]:
    [body] = re.findall(r"<tbody>.*?</tbody>", text[text.index('class="wide rows"') :], re.DOTALL)[
        :1
    ]
    return [
        [html.unescape(re.sub("<[^>]*>", "", each)) for each in re.findall("<td.*?</td>", row)]
        for row in re.findall("<tr.*?</tr>", body)
    ]


def test_columns_of_the_dataset_come_first_and_those_of_the_system_behind_a_link(visitor):
    assert headings(visitor.get("/long").text) == ["event_time", "city", "population", "offset"]
    text = visitor.get("/long?rows=0").text
    assert headings(text) == ["event_time", "city", "population", "offset"]
    assert 'href="/long?rows=0&amp;system=1"' in text
    shown = visitor.get("/long?rows=0&system=1").text
    assert headings(shown)[4:] == ["op", "system_time"]
    assert 'href="/long?rows=0"' in shown


def test_a_heading_sorts_and_a_second_time_the_other_way(visitor):
    text = visitor.get("/long?rows=0").text
    assert 'href="/long?rows=0&amp;sort=population"' in text
    first = visitor.get("/long?rows=0&sort=population").text
    assert [row[2] for row in cells(first)] == [str(n * 100) for n in range(100)]
    assert 'aria-sort="ascending"' in first
    assert 'href="/long?rows=0&amp;sort=-population"' in first
    assert 'href="/long?rows=100&amp;sort=population" rel="next"' in first
    rest = visitor.get("/long?rows=100&sort=population").text
    assert len(cells(rest)) == 50
    assert 'rel="next"' not in rest


@pytest.mark.parametrize(
    ("asked", "offsets"),
    [
        ({"column": "population", "how": "is", "value": "900"}, ["9"]),
        ({"column": "population", "how": "from", "value": "14800"}, ["149", "148"]),
        ({"column": "population", "how": "to", "value": "100"}, ["1", "0"]),
        ({"column": "city", "how": "has", "value": "C14"}, [*map(str, range(149, 139, -1)), "14"]),
        ({"value": "c14", "sort": "offset"}, ["14", *map(str, range(140, 150))]),
        ({"column": "population", "how": "null"}, []),
        ({"column": "event_time", "how": "not", "value": "2050-01-01T12:00:00Z"}, []),
        ({"column": "city", "how": "is", "value": "x' or 'a' = 'a"}, []),
    ],
)
def test_a_form_filters_through_the_engine_of_queries(visitor, asked, offsets):
    text = visitor.get("/long", params={"rows": "0", **asked}).text
    assert '<p class="problem">' not in text
    assert ([row[3] for row in cells(text)] if offsets else "No rows here" in text) == (
        offsets or True
    )


def test_the_query_of_the_rows_is_told(visitor):
    text = visitor.get("/long?rows=0&sort=-city").text
    assert "order by &#34;city&#34; desc nulls last, &#34;offset&#34; desc</code>" in text


def test_names_and_values_with_quotes_and_markup_are_themselves(visitor):
    name = headings(visitor.get("/odd").text)[1]
    asked = {"rows": "0", "column": name, "how": "is", "value": "it's 100%"}
    text = visitor.get("/odd", params={**asked, "sort": name}).text
    assert [row[4] for row in cells(text)] == ["2"]
    assert "<b>" not in text
    everything = visitor.get("/odd", params={"rows": "0", "sort": f"-{name}"}).text
    assert [row[4] for row in cells(everything)] == ["0", "2", "1"]


def test_floats_are_rounded_and_their_whole_value_is_their_title(visitor):
    text = visitor.get("/odd").text
    assert '<td class="number" title="0.30000000000000004">0.3</td>' in text
    assert [row[3] for row in cells(text)] == [str(-(2**63)), "null", str(2**63 - 1)]


def test_cells_have_the_digits_that_their_column_holds():
    texts = [each.text for each in number_cells([1.5, None, 2.25, 3.0, 1e300, -0.0000001234])]
    assert texts == ["1.50", None, "2.25", "3.00", "1e+300", "-1.234e-07"]
    assert [each.full for each in number_cells([1234567.891, 2.0])] == ["1234567.891", None]
    assert [each.text for each in number_cells(["NaN", True, 2**70])] == ["NaN", "true", str(2**70)]


def test_a_row_that_was_taken_back_is_struck_through_and_leads_to_what_took_it_back(visitor):
    text = visitor.get("/corrected?changelog=0").text
    gone = re.findall(r'<tr class="gone">.*?</tr>', text)
    assert len(gone) == 1
    assert "<del>0 added</del>" in gone[0]
    assert '<a href="/corrected?why=0">taken back</a>' in gone[0]
    assert 'class="gone"' not in visitor.get("/corrected").text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("rows=0&sort=nothing", "has no column"),
        ("rows=0&column=nothing&how=is&value=1", "has no column"),
        ("rows=0&column=city&how=near&value=1", "choose a column"),
        ("rows=0&how=is&value=1", "choose a column"),
        ("rows=0&value=" + "x" * 1001, "1000 characters"),
    ],
)
def test_what_no_column_and_no_condition_can_be_is_refused(visitor, asked, said):
    answer = visitor.get(f"/long?{asked}")
    assert answer.status_code == 400
    assert said in answer.text


def test_a_value_that_the_column_cannot_have_is_told_on_the_page(visitor):
    asked = {"rows": "0", "column": "population", "how": "is", "value": "<many>"}
    answer = visitor.get("/long", params=asked)
    assert answer.status_code == 200
    assert '<p class="problem">' in answer.text
    assert "<many>" not in answer.text


def test_pages_of_hostile_rows_are_sorted_as_well(visitor):
    for name in headings(visitor.get("/hostile").text):
        answer = visitor.get("/hostile", params={"rows": "0", "sort": name})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text


def test_the_address_keeps_what_it_was_asked():
    asked = {"sort": "-a", "column": "b", "how": "has", "value": "x & y", "system": "1"}
    wanted = ViewerWish.parse(asked, KINDS)
    assert wanted.address("rows", 100) == (
        "?rows=100&sort=-a&column=b&how=has&value=x+%26+y&system=1"
    )
