"""Statistics of columns on the page of a dataset are of all its rows, and say of how many."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from servers import wait_until
from service import Service, serving
from table_made import TableMade

from odf_node.service.read import outlines as beside
from odf_storage.stores.ports.values import Visibility

COLUMNS = pa.schema(
    [
        ("month", pa.int64()),
        ("weight", pa.float64()),
        ("name", pa.string()),
        ("at", pa.timestamp("ms", "UTC")),
    ]
)
START = datetime(2050, 1, 1, tzinfo=UTC)


def _row(number: int, **changed: Any) -> dict[str, Any]:
    """The extremes of all columns lie in the first of a thousand rows."""
    first = number == 0
    return {
        "month": -7 if first else number * 12 // 1000 + 1,
        "weight": math.nan if number == 1 else 1e9 if first else 0.5,
        "name": "~last" if first else None if number == 2 else f"n{number % 5}",
        "at": START + timedelta(minutes=-1 if first else number),
        **changed,
    }


@pytest.fixture(scope="module", params=[1, 50])
def table(request, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("statistics") / "node") as service:
        made = TableMade(service.node.stores, "kamu/months", COLUMNS, visibility=Visibility.PUBLIC)
        size = 1000 // request.param
        made.add_blocks([[_row(n) for n in range(at, at + size)] for at in range(0, 1000, size)])
        yield service, made


def shown(service: Service) -> tuple[str, dict[str, list[str]]]:
    """The page, and the cells of each column's line as text."""
    with service.http() as http:
        page = http.get("/months", headers={"accept": "text/html"}).text
    lines = re.findall(r'<tr><td class="name">([^<]*)</td>(.*?)</tr>', page)
    cells = {
        name: [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", line)]
        for name, line in lines
    }
    return page, cells


def test_extremes_and_nulls_are_those_of_all_rows(table):
    service, _ = table
    page, cells = shown(service)
    assert cells["month"][1] == "0"
    assert cells["month"][3:5] == ["-7", "12"]
    assert cells["weight"][3:5] == ["0.5", "1000000000.0"]
    assert cells["name"][1] == "1"
    assert cells["name"][3:5] == ["n0", "~last"]
    assert cells["at"][3] == "2049-12-31T23:59:00Z"
    assert int(cells["month"][2]) >= 12
    assert re.search(r"of all 1.?000 rows as they were recorded", page)
    assert re.search(r"spread are of \d+ of 1.?000 rows, from all parts", page)


def test_new_rows_count_at_the_next_look(table):
    service, made = table
    shown(service)
    made.add([_row(5, month=99, name=None)])
    _, cells = shown(service)
    assert (cells["month"][4], cells["name"][1]) == ("99", "2")
    assert cells["month"][3] == "-7"


def test_a_column_that_takes_too_many_values_has_the_statistics_of_the_sample(tmp_path):
    with serving(tmp_path / "node", page_statistics_cells=0) as service:
        made = TableMade(service.node.stores, "kamu/months", COLUMNS, visibility=Visibility.PUBLIC)
        made.add([_row(n) for n in range(1000)])
        _, cells = shown(service)
    assert cells["month"][3:5] == ["-7", "12"]
    assert re.fullmatch(r"\d+ of 500", cells["weight"][1])
    assert re.fullmatch(r"0.5 of 500 rows", cells["weight"][3])


def test_a_page_does_not_wait_for_what_many_slices_say(table, monkeypatch):
    """It says what is being looked for, and a later one has it."""
    service, _ = table
    service.node.profiles.known.clear()
    service.node.current.remembered.clear()
    monkeypatch.setattr(beside, "MANY_SLICES", 0)
    monkeypatch.setattr(beside, "PATIENCE_S", 0.0)
    page, cells = shown(service)
    assert "Statistics of all slices are being made" in page
    assert "whether any were taken back is being looked for" in page
    assert len(cells["month"]) == 1

    def is_made() -> bool:
        later, there = shown(service)
        return "Look again in a while" not in later and len(there["month"]) > 1

    wait_until(is_made, "the statistics")
