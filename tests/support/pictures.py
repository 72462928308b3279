"""Pictures of pages for the documents: `make pictures` writes docs/pictures/*.png."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from browsers import Windows, chromium
from page_sets import corrected, stations
from service import Service, serving
from tests.workers.provenance.test_tour_of_provenance import made

from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH, HEIGHT = 1000, 620
MAX_BYTES = 100_000
DERIVATIVES = {"daily": ("stations", "corrections"), "weekly": ("daily",), "report": ("weekly",)}


def derivative(name: str, inputs: tuple[str, ...]) -> dict[str, Any]:
    """The manifest of one whose SQL does not matter."""
    named = [{"datasetRef": f"weather/{one}", "alias": one} for one in inputs]
    query = {"kind": "Sql", "engine": "datafusion", "query": "select 1 as one"}
    event = {"kind": "SetTransform", "inputs": named, "transform": query}
    content = {"name": name, "kind": "Derivative", "metadata": [event]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def fill(service: Service) -> None:
    service.keep(stations(), "weather/stations")
    service.keep(corrected(), "weather/corrections")
    with service.http(service.token("weather")) as owner:
        for name, inputs in DERIVATIVES.items():
            made = owner.post("/datasets?visibility=public", json=derivative(name, inputs))
            made.raise_for_status()


def take(service: Service, window: Windows) -> None:
    page = window(f"{service.url}/weather/stations", width=WIDTH)
    page.get_by_role("button", name=re.compile("^Check it here")).click()
    page.get_by_text("the chain is whole").wait_for()
    page.evaluate("scrollTo(0, 0)")
    for name, start in (("dataset", "h1"), ("columns", "#columns"), ("checked", "#checked")):
        top = page.locator(start).bounding_box()
        assert top is not None
        clip = {"x": 0, "y": max(0, top["y"] - 16), "width": WIDTH, "height": HEIGHT}
        page.screenshot(path=FOLDER / f"{name}.png", clip=clip, full_page=True)
    page.get_by_role("link", name=re.compile("^f1620")).first.click()
    page.get_by_role("heading", name=re.compile("^Block ")).wait_for()
    page.screenshot(path=FOLDER / "block.png")


def take_tour(folder: Path, window: Windows) -> None:
    """The tour of docs/provenance.md: why a day is the second worst."""
    scratch = folder / "scratch"
    scratch.mkdir()
    spark = SparkWhenNeeded(SparkOptions(scratch=scratch, folders=(folder,)))
    with serving(folder / "node", poll_s=0.05) as service, made(service, spark, scratch):
        page = window(f"{service.url}/worst?why=1", width=WIDTH)
        while (again := page.get_by_role("link", name="Look again")).count():
            again.click()
        page.get_by_text("The named rows alone give this row.").first.wait_for()
        top = page.locator("h1").bounding_box()
        assert top is not None
        clip = {"x": 0, "y": max(0, top["y"] - 16), "width": WIDTH, "height": HEIGHT}
        page.screenshot(path=FOLDER / "why.png", clip=clip, full_page=True)
    spark.stop()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as data, chromium() as browser:
        with serving(Path(data, "node"), tenancy="multi") as service:
            fill(service)
            take(service, Windows(browser))
        with TemporaryDirectory() as other:
            take_tour(Path(other), Windows(browser))
    large = [one.name for one in FOLDER.glob("*.png") if one.stat().st_size > MAX_BYTES]
    assert large == [], f"larger than {MAX_BYTES} bytes: {large}"


if __name__ == "__main__":
    main()
