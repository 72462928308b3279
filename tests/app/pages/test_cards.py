"""Share cards: the pictures beside links to datasets, who sees them, and what stands on them."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any

import pytest
from page_sets import stations
from PIL import Image
from service import serving, ten_rows

from odf_node.service.pages.datasets.cards import (
    DRAWING,
    MARGIN,
    SIZE,
    CardWords,
    card,
)
from odf_node.service.pages.frame.pictures import SampledRows, picture
from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html"}
NAME_PLACE = (MARGIN, 92, 1136, 170)
SENTENCE_PLACE = (MARGIN, 184, 1136, 320)
FACTS_PLACE = (MARGIN, 540, 1136, 620)


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("cards"), tenancy="multi") as service:
        service.keep(stations(), "anna/stations", visibility=Visibility.PUBLIC)
        service.keep(ten_rows(), "anna/hidden", visibility=Visibility.PRIVATE)
        yield service


def said(**changed: Any) -> CardWords:
    words = {"node": "A node", "name": "a/b", "sentence": "Rain by hour", "facts": "10 rows"}
    return CardWords(**{**words, **changed})


def ink(image: bytes, box: tuple[int, int, int, int]) -> int:
    """How many pixels of a part of the card are no paper."""
    part = Image.open(BytesIO(image)).convert("L").crop(box)
    return sum(count for level, count in enumerate(part.histogram()) if level < 200)


def test_a_public_page_names_its_card_and_others_fetch_it_without_an_account(node):
    with node.http() as http:
        page = http.get("/anna/stations", headers=HTML).text
        found = re.search('<meta property="og:image" content="([^"]+)">', page)
        assert found is not None
        assert found[1].startswith(f"{node.url}/v/card/anna/stations?head=f16")
        assert 'content="summary_large_image"' in page
        answer = http.get(found[1], headers={"accept": "image/*"})
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["cache-control"].startswith("public")
        assert len(answer.content) < 100_000
        assert Image.open(BytesIO(answer.content)).size == SIZE
        tag = answer.headers["etag"]
        again = http.get(found[1], headers={"if-none-match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        packed = http.get(found[1], headers={"accept-encoding": "gzip, br, zstd"})
        assert ("content-encoding" in packed.headers, packed.headers["etag"]) == (False, tag)
    for place in (NAME_PLACE, FACTS_PLACE, _corners(DRAWING)):
        assert ink(answer.content, place) > 500


def _corners(box: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    return box[0], box[1], box[0] + box[2], box[1] + box[3]


def test_a_private_dataset_has_no_card_not_even_for_its_owner(node):
    with node.http() as http:
        unknown = http.get("/v/card/anna/nothing", headers=HTML)
        hidden = http.get("/v/card/anna/hidden", headers=HTML)
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.text.replace("hidden", "nothing") == unknown.text
        http.cookies.set("odf_session", node.token("anna"))
        assert http.get("/v/card/anna/hidden", headers=HTML).status_code == 404
        assert "og:image" not in http.get("/anna/hidden", headers=HTML).text


def test_the_same_words_give_the_same_bytes_and_others_give_others():
    assert card(said()) == card(said())
    assert card(said(sentence="Snow by hour")) != card(said())


@pytest.mark.parametrize(
    "text", ["Погода по часам", "Température à Zürich", "Καιρός", "°C – µg/m³", "שלום", "سلام"]
)
def test_a_sentence_in_letters_that_the_font_has_is_not_blank(text):
    boxes = card(said(sentence="□" * len(text)))
    assert ink(card(said(sentence=text)), SENTENCE_PLACE) > 300
    assert card(said(sentence=text)) != boxes


def test_a_sentence_in_letters_that_the_font_lacks_is_left_out():
    assert ink(card(said(sentence="東京の気温")), SENTENCE_PLACE) == 0
    assert ink(card(said(sentence="東京の気温")), NAME_PLACE) > 300


def test_long_texts_stay_on_the_card():
    for size in (30, 100, 400):
        image = card(said(name="a" * size, sentence="word " * size + "x" * 500))
        right = (SIZE[0] - MARGIN + 2, 20, SIZE[0], SIZE[1])
        assert ink(image, right) == 0


KINDS = {"t": "Timestamp", "v": "Float64", "c": "String", "lat": "Float64", "lon": "Float64"}


@pytest.mark.parametrize("kind", ["area", "line", "bars", "map"])
def test_each_kind_of_figure_is_drawn(kind):
    rows = {
        "t": [f"2050-01-{1 + n:02}T00:00:00Z" for n in range(28)],
        "v": [n * 7 % 5 + 0.5 for n in range(28)],
        "c": ["a", "b"] * 14,
        "lat": [60 + n / 10 for n in range(28)],
        "lon": [20 + n / 10 for n in range(28)],
    }
    made = picture(SampledRows(rows, KINDS), "t", frozenset())
    figure = next(each for each in made if each.kind == kind)
    image = card(said(figure=figure))
    assert ink(image, _corners(DRAWING)) > 500
    assert ink(card(said()), _corners(DRAWING)) == 0
    assert ink(image, (0, DRAWING[1], MARGIN - 6, DRAWING[1] + DRAWING[3])) == 0
