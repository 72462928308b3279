"""Pages of datasets in a real browser: they follow the head, and are for all eyes and hands."""

from __future__ import annotations

import re

import pytest
from browsers import EYES, NARROW, overflow, violations
from cut_relay import cut_relay
from page_sets import corrected, hostile, stations, wide
from service import seeded, serving, ten_rows

from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetInfo

MAX_PAGE_BYTES = 60_000
"""With what it loads, without rows of data and documents."""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("browsed"), tenancy="multi") as service:
        service.keep(stations(), "anna/stations")
        service.keep(corrected(), "anna/corrected")
        service.keep(wide(), "anna/wide")
        service.keep(hostile(), "anna/hostile")
        service.keep(seeded(), "anna/empty")
        yield service


def describe(node, chain, text):
    """One more block."""
    known = len(chain.blocks)
    chain.add(SetInfo(description=text))
    dataset = node.node.stores.dataset(DatasetRef(id=chain.id))
    dataset.commit(chain.blocks[known:], expected=chain.blocks[known - 1].hash)


def test_news_appear_without_a_reload_and_what_the_visitor_wrote_stays(node, window):
    chain = ten_rows()
    node.keep(chain, "anna/moving")
    page = window(f"{node.url}/")
    page.get_by_role("link", name="anna/moving").click()
    page.get_by_role("heading", name="anna/moving").wait_for()
    page.get_by_role("textbox").fill("select 1")
    page.get_by_text("Polars", exact=True).click()
    page.evaluate("window.isSame = true")
    describe(node, chain, "now with words")
    page.locator(".lead", has_text="now with words").wait_for()
    assert page.evaluate("window.isSame")
    assert page.get_by_role("textbox").input_value() == "select 1"
    assert page.get_by_text("pl.read_parquet").first.is_visible()


def test_a_page_that_lost_its_connection_comes_back_by_the_last_event(node, window):
    chain = ten_rows()
    node.keep(chain, "anna/cut")
    with cut_relay(int(node.url.rpartition(":")[2])) as relay:
        page = window(f"{relay.url}/anna/cut")
        describe(node, chain, "before the cut")
        page.locator(".lead", has_text="before the cut").wait_for()
        told = str(chain.head)
        relay.cut()
        describe(node, chain, "after the cut")
        page.locator(".lead", has_text="after the cut").wait_for()
        asked = b"".join(relay.asked).lower()
        assert f"last-event-id: {told}".encode() in asked
        page.close()
    window.complaints.clear()  # the browser tells of the cut


@pytest.mark.parametrize(("width", "scheme"), EYES)
def test_the_page_of_a_dataset_is_for_all_eyes(node, window, width, scheme):
    page = window(f"{node.url}/anna/stations", width=width, scheme=scheme)
    assert violations(page) == []
    assert overflow(page) <= 0


@pytest.mark.parametrize("query", ["?rows=5", "?columns=", "?history=", "?block="])
def test_the_pages_below_a_dataset_are_for_all_eyes(node, window, query):
    with node.http() as client:
        head = client.get("/anna/stations/refs/head").text
    address = f"{node.url}/anna/stations{query}{head if query == '?block=' else ''}"
    for width, scheme in EYES:
        page = window(address, width=width, scheme=scheme)
        assert violations(page) == []
        assert overflow(page) <= 0


@pytest.mark.parametrize("name", ["corrected", "wide", "hostile", "empty"])
def test_odd_datasets_have_pages_as_well(node, window, name):
    page = window(f"{node.url}/anna/{name}", width=NARROW)
    assert violations(page) == []
    assert overflow(page) <= 0
    page.get_by_role("link", name=re.compile("^f1620")).first.click()
    page.get_by_role("heading", name=re.compile("^Block ")).wait_for()


def test_rows_that_were_taken_back_are_one_link_away_and_say_so(node, window):
    page = window(f"{node.url}/anna/corrected")
    offsets = page.locator(".rows tbody td:last-child").all_inner_texts()
    assert offsets == ["4", "2", "1", "0"]  # what takes back fits no row here
    page.get_by_role("link", name="All rows as they were recorded").click()
    ops = page.locator(".rows tbody td:first-child").all_inner_texts()
    assert ops == ["1 retracted", "3 corrected to", "2 corrected from", *["0 added"] * 3]


def test_the_page_is_whole_without_javascript(node, window):
    page = window(f"{node.url}/anna/stations", script=False)
    assert page.locator("h1").inner_text() == "anna/stations"
    assert page.locator(".rows tbody tr").count() == 20
    assert page.locator(".copy").count() == 0
    page.get_by_text("DuckDB", exact=True).click()
    assert page.get_by_text("SELECT * FROM read_parquet(").first.is_visible()
    page.get_by_role("link", name="Older rows").click()
    assert page.locator(".rows tbody tr").count() == 100


def test_the_keyboard_reaches_everything(node, window):
    page = window(f"{node.url}/anna/stations")
    page.get_by_text("DuckDB", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Copy"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") == "pre"


def test_a_line_is_copied_by_a_button(node, window):
    page = window(f"{node.url}/anna/stations", permissions=["clipboard-read", "clipboard-write"])
    button = page.locator("details[open] .copy")
    button.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert "pd.read_parquet" in page.evaluate("navigator.clipboard.readText()")


def test_differences_of_a_block_are_shown(node, window):
    page = window(f"{node.url}/anna/stations")
    page.get_by_role("link", name=re.compile("^f1620")).first.click()
    assert page.locator("del").inner_text() == "- description: Weather of four stations"
    assert (
        page.locator("ins").inner_text() == "+ description: Weather of four stations, by the hour"
    )


@pytest.mark.parametrize("name", ["stations", "wide", "hostile", "empty"])
def test_a_page_is_light(node, window, name):
    sizes = []
    page = window("about:blank")
    page.on("response", lambda answer: "/events" in answer.url or sizes.append(len(answer.body())))
    page.goto(f"{node.url}/anna/{name}")
    page.wait_for_load_state("load")
    data = page.locator(".rows, .document").evaluate_all(
        "found => found.reduce((sum, each) => sum + new Blob([each.outerHTML]).size, 0)"
    )
    assert len(sizes) > 3
    assert sum(sizes) - data < MAX_PAGE_BYTES
