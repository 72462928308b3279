"""Parts of pages that are pure functions: statistics, drawings, differences, lines to load by."""

from __future__ import annotations

import re

import pytest
from reading_page import blocks

from odf_node.service.pages.datasets.blocks import changes, replaced_by, subject_of
from odf_node.service.pages.datasets.loading import ways
from odf_node.service.pages.datasets.statistics import (
    BARS,
    BARS_HEIGHT,
    BOX_HEIGHT,
    MAX_BOXES,
    ColumnFacts,
    bars_path,
    facts_of,
    lineage_drawing,
)
from odf_node.service.pages.frame.cells import cell_text
from odf_node.service.pages.frame.views import sample_size
from odf_protocol.metadata.events import DisablePollingSource, SetInfo, SetLicense


def test_numbers_have_least_greatest_and_bars_between():
    facts = facts_of({"kind": "Option", "inner": {"kind": "Int64"}}, [5, None, 1, 5, 100])
    assert (facts.nulls, facts.distinct, facts.least, facts.greatest) == (1, 3, "1", "100")
    assert len(facts.bars) == BARS
    assert (facts.bars[0], facts.bars[-1], sum(facts.bars)) == (3, 1, 4)


def test_days_one_after_the_other_fill_the_bars_evenly():
    facts = facts_of({"kind": "Date"}, [f"2050-01-{day:02}" for day in range(1, 14)])
    assert facts.bars == (*[1] * (BARS - 1), 2)


@pytest.mark.parametrize(
    ("kind", "values", "least"),
    [
        ("Decimal", ["10.5", "9.25"], "9.25"),
        ("Timestamp", ["2050-01-02T00:00:00Z", "2050-01-01T23:59:59.123456789Z"], None),
        ("Date", ["2050-10-01", "2050-09-30"], "2050-09-30"),
        ("Float64", [1e308, -1e308], "-1e+308"),
    ],
)
def test_values_are_ordered_by_what_they_mean(kind, values, least):
    facts = facts_of({"kind": kind}, values)
    assert facts.least == (least or values[1])
    assert (facts.bars[0], facts.bars[-1]) == (1, 1)


def test_frequent_texts_are_counted_and_texts_that_never_repeat_are_not():
    facts = facts_of({"kind": "String"}, ["b", "a", "b", "c"])
    assert (facts.distinct, facts.frequent[0], facts.bars) == (3, "b", (2, 1, 1))
    assert facts_of({"kind": "String"}, ["b", "a"]).bars == ()
    assert facts_of({"kind": "Bool"}, [True, False, True]).frequent == ("true", "false")


@pytest.mark.parametrize("year", ["+12345-01-01", "-0044-03-15"])
def test_years_that_python_does_not_know_are_counted_as_texts(year):
    facts = facts_of({"kind": "Date"}, [year, year])
    assert (facts.least, facts.bars) == (year, (2,))


@pytest.mark.parametrize("kind", ["Struct", "List", "Map", "Binary", "Null", "Time"])
def test_of_other_columns_nulls_are_counted(kind):
    assert facts_of({"kind": kind}, [None, [1]]) == ColumnFacts(1)


@pytest.mark.parametrize(("columns", "taken"), [(10, 500), (200, 50), (10**4, 20), (0, 500)])
def test_the_sample_of_statistics_is_bounded_by_rows_and_cells(columns, taken):
    assert sample_size(columns) == taken


def test_signs_that_turn_text_around_are_not_shown():
    assert cell_text("a\u202eb") == "a\ufffdb"


@pytest.mark.parametrize("kind", ["Int64", "String", "Timestamp", "Bool"])
def test_values_of_another_type_than_the_schema_says_break_nothing(kind):
    for values in ([[1], [2]], [{"a": 1}], [1, "a"], [True, "a"], [1.5, [None]]):
        assert facts_of({"kind": kind}, [None, *values]).nulls == 1


def test_a_column_of_nulls_and_an_empty_one_have_nothing_to_show():
    assert facts_of({"kind": "Int32"}, [None, None]) == ColumnFacts(2)
    assert facts_of({"kind": "Int32"}, []) == ColumnFacts(0)


def test_the_highest_bar_fills_the_box_and_a_small_one_is_seen():
    path = bars_path((1000, 0, 1))
    assert re.findall(r"v-(\d+)", path) == [str(BARS_HEIGHT), "1"]


def test_inputs_are_drawn_left_of_the_dataset_and_users_right_of_it():
    names = {"a": "a", "b": None, "me": "me", "z": "z"}
    drawn = lineage_drawing("me", names, [("a", "me"), ("b", "a"), ("b", "me"), ("me", "z")])
    x = {box.name: box.x for box in drawn.boxes}
    assert x[None] < x["a"] < x["me"] < x["z"]
    assert [box.name for box in drawn.boxes if box.is_center] == ["me"]
    assert drawn.arrows.count("l6 4l-6 4") == 4
    assert drawn.left_out == 0


def test_of_too_many_datasets_the_near_ones_are_drawn():
    far = [(f"n{n}", f"n{n + 1}") for n in range(MAX_BOXES)]
    edges = [("me", "n0"), *far]
    names = {one: one for edge in edges for one in edge}
    drawn = lineage_drawing("me", names, edges)
    assert len(drawn.boxes) == MAX_BOXES
    assert drawn.left_out == len(names) - MAX_BOXES
    assert {"me", "n0"} <= {box.name for box in drawn.boxes}


def test_a_circle_of_datasets_is_drawn_as_well():
    drawn = lineage_drawing("a", {"a": "a", "b": "b"}, [("a", "b"), ("b", "a")])
    assert len(drawn.boxes) == 2


def test_a_query_is_compared_line_by_line():
    old = SetInfo(description="select a, \nfrom b\nwhere c")
    new = SetInfo(description="select a,\nfrom d\nwhere c")
    lines = changes(old, new)
    assert [(line.sign, line.text.strip()) for line in lines if line.sign in "+-"] == [
        ("-", "from b"),
        ("+", "from d"),
    ]


def test_what_is_too_long_is_not_compared():
    assert changes(SetInfo(description="x\n" * 2000), SetInfo(description="y")) is None


def test_an_event_replaces_the_last_one_about_the_same_thing():
    class Block:
        def __init__(self, event):
            self.event = event

    older = [Block(SetLicense(short_name="a", name="a", website_url="a")), Block(SetInfo())]
    assert replaced_by(SetInfo(description="new"), older) is older[1]
    assert replaced_by(DisablePollingSource(), older) is None
    assert subject_of(SetInfo()) != subject_of(older[0].event)


def test_the_lines_for_spark_are_those_that_a_test_of_the_documents_runs():
    (printed,) = [
        way.lines for way in ways("http://n/", "cities", is_open=True) if way.tool == "Spark"
    ]
    (run,) = blocks("spark", "http://n")
    assert [line for line in printed.splitlines() if line] == [
        line for line in run.splitlines()[:-1] if line
    ]


@pytest.mark.parametrize("alias", ["anna/rain.by-hour", "2024", "class"])
def test_names_of_variables_are_names_in_python(alias):
    (text,) = [way.lines for way in ways("http://n/", alias, is_open=True) if way.tool == "pandas"]
    compile(text, "pandas", "exec")


def test_an_edge_over_a_column_passes_below_the_boxes():
    names = {each: each for each in ("b", "a", "me")}
    drawn = lineage_drawing("me", names, [("b", "a"), ("a", "me"), ("b", "me")])
    lowest = max(box.y for box in drawn.boxes) + BOX_HEIGHT
    lanes = [int(y) for y in re.findall(r" (\d+)H", drawn.arrows)]
    assert len(lanes) == 1
    assert lowest < lanes[0] < drawn.height
