"""Pages of datasets in a real browser: they follow the head, and are for all eyes and hands."""

from __future__ import annotations

import pytest
from browsers import NARROW, SCHEMES, WIDE, overflow, violations
from service import serving, ten_rows

from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.metadata.events import SetInfo


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("browsed"), tenancy="multi") as service:
        service.keep(ten_rows(), "anna/open")
        yield service


def test_the_page_follows_the_head(node, window):
    chain = ten_rows()
    node.keep(chain, "anna/moving")
    page = window(f"{node.url}/")
    page.get_by_role("link", name="anna/moving").click()
    page.get_by_role("heading", name="anna/moving").wait_for()
    known = len(chain.blocks)
    chain.add(SetInfo(description="now with words"))
    dataset = node.node.stores.dataset(DatasetRef(id=chain.id))
    dataset.commit(chain.blocks[known:], expected=chain.blocks[known - 1].hash)
    page.get_by_text("now with words").first.wait_for()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_of_a_dataset_is_for_all_eyes(node, window, width, scheme):
    page = window(f"{node.url}/anna/open", width=width, scheme=scheme)
    assert violations(page) == []
    assert overflow(page) <= 0


def test_the_page_is_whole_without_javascript(node, window):
    page = window(f"{node.url}/anna/open", script=False)
    assert page.locator("h1").inner_text() == "anna/open"
    assert page.locator(".rows tbody tr").count() == 10
