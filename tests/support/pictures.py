"""Pictures of pages for the documents: `make pictures` writes docs/pictures/*.png."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from browsers import Windows, chromium
from page_sets import corrected, stations
from service import Service, serving

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


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as data, serving(Path(data), tenancy="multi") as service:
        fill(service)
        with chromium() as browser:
            take(service, Windows(browser))
    large = [one.name for one in FOLDER.glob("*.png") if one.stat().st_size > MAX_BYTES]
    assert large == [], f"larger than {MAX_BYTES} bytes: {large}"


if __name__ == "__main__":
    main()
