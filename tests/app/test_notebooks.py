"""Datasets in a notebook: cards, lists that a search found, cells of SQL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from page_sets import EVIL, corrected, hostile, of_table, stations, wide
from refusals import refusing
from service import Service, seeded, serving

import odf_node
from odf_protocol.errors import BadInput
from odf_storage.datasets.node.overviews import bring_up

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("%load_ext odf_node").raise_error()
found = shell.run_cell("%%odf {url}\\nselect city, people from counted order by people")
found.raise_error()
assert [*found.result.city] == ["a", "b", "c"], found.result
shown = shell.run_cell("import odf_node; odf_node.open('{url}/counted')")
html, _ = shell.display_formatter.format(shown.result)
assert "<h3>counted</h3>" in html["text/html"], html
wrong = shell.run_cell("%%odf {url}\\nselect nothing from counted")
assert "nothing" in str(wrong.error_in_exec), wrong
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("notebooks") / "node") as service:
        service.keep(stations(), "kamu/stations")
        service.keep(hostile(), "kamu/hostile")
        service.keep(corrected(), "kamu/corrected")
        service.keep(wide(), "kamu/wide")
        service.keep(seeded(), "kamu/empty")
        service.keep(of_table({"city": ["a", "b", "c"], "people": [1, 2, 3]}), "kamu/counted")
        while bring_up(service.node.stores):
            pass
        yield service


def card(where: str | Path) -> str:
    return odf_node.open(where)._repr_html_()


def test_a_card_says_what_a_dataset_is_and_draws_it(service: Service) -> None:
    shown = card(f"{service.url}/stations")
    assert "<h3>stations</h3><p>Weather of four stations, by the hour</p>" in shown
    assert re.search(r"<p>300 rows · [\d.]+ KiB · CC-BY-4.0 · changed", shown)
    assert '<td style="text-align:left">position.lat</td>' in shown
    for title in ("Rows over event time", "temp over event time", "Rows by station"):
        assert title in shown
    assert "Drawn from the newest 300 rows" in shown


def test_a_folder_has_the_same_card_but_for_its_name(service: Service, tmp_path: Path) -> None:
    odf_node.pull(f"{service.url}/stations", tmp_path / "copy")
    there, here = card(f"{service.url}/stations"), card(tmp_path / "copy")
    assert here.partition("</h3>")[2] == there.partition("</h3>")[2]
    facts = odf_node.open(tmp_path / "copy").info
    told = odf_node.open(f"{service.url}/stations").info
    assert facts == {name: told[name] for name in facts}


def test_what_strangers_wrote_is_text_in_a_card(service: Service) -> None:
    for shown in (
        card(f"{service.url}/hostile"),
        odf_node.node(service.url).search()._repr_html_(),
    ):
        assert EVIL not in shown
        assert "&lt;script&gt;" in shown
        assert "<img" not in shown


def test_five_rows_and_twenty_columns_are_shown_the_newest_first(service: Service) -> None:
    shown = card(f"{service.url}/wide")
    assert shown.count("<tr>") == 1 + 204 + 1 + 5
    assert ">column_017</th>" in shown
    assert ">column_018</th>" not in shown
    assert re.findall(r"<tr><td[^>]*>(\d+)</td>", shown) == ["29", "28", "27", "26", "25"]


def test_an_empty_dataset_and_an_absent_one_have_cards(service: Service) -> None:
    assert "<p>0 rows" in card(f"{service.url}/empty")
    shown = card(f"{service.url}/absent")
    assert "absent" in shown
    assert "no dataset has this name" in shown


def test_a_search_finds_datasets_that_can_be_read(service: Service) -> None:
    node = odf_node.node(service.url)
    found = node.search("weather hourly")
    assert [one["alias"] for one in found.told] == ["stations"]
    assert found[0].arrow(limit=3).num_rows == 3
    assert ">Weather of four stations, by the hour</td>" in found._repr_html_()
    assert len(node.search()) == 6
    assert len(node.search(limit=2, sort="rows")) == 2
    assert repr(found) == "<1 dataset(s): stations>"


def test_a_node_answers_sql(service: Service) -> None:
    node = odf_node.node(service.url)
    table = node.sql("select sum(people) as people from counted")
    assert table.to_pylist() == [{"people": 6}]
    assert node.sql("select * from stations", limit=7).num_rows == 7
    with pytest.raises(BadInput, match="peple"):
        node.sql("select peple from counted")


def test_a_node_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ODF_NODE_URL", raising=False)
    with refusing("UnsupportedUrl"):
        odf_node.node()


def test_cells_of_a_notebook_load_the_extension_ask_in_sql_and_show_cards(
    service: Service, tmp_path: Path
) -> None:
    pytest.importorskip("IPython", reason="needs IPython, of the test tools")
    script = CELLS.replace("{url}", service.url)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_card_needs_no_part_of_a_node() -> None:
    code = (
        "import sys\nfor name in ('jinja2', 'fastapi', 'starlette', 'sqlalchemy'):\n"
        "    sys.modules[name] = None\nimport odf_node.public.notebook"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
