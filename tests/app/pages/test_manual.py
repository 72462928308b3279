"""The manual at /docs/manual: every page is shown, every link leads somewhere, search finds."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from service import serving

from odf_node.service.pages.guide.manual import (
    ADDRESS,
    MAX_QUERY_CHARS,
    html_of,
    manual,
)

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md"))
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service, service.http() as client:
        client.timeout = 120
        client.headers.update(HTML)
        yield client


def test_every_page_of_the_sources_is_in_the_manual():
    assert sorted(manual().pages) == sorted([*PAGES, "tour"])


@pytest.mark.parametrize("name", [*PAGES, "tour"])
def test_every_link_within_the_manual_leads_to_a_page_and_a_heading(name):
    for link in re.findall(r'(?:href|src)="([^"]*)"', html_of(name, "/odf")):
        path, _, anchor = link.partition("#")
        if path and not path.startswith("/odf" + ADDRESS):
            assert ":" in path, link
            continue
        target = unquote(path.removeprefix("/odf" + ADDRESS)).strip("/")
        if target in manual().pictures:
            continue
        target = target or (name if not path else "README")
        assert target in manual().pages, link
        if anchor:
            assert f' id="{unquote(anchor)}"' in html_of(target, "/odf"), link


def test_a_page_is_shown_with_its_contents(client):
    answer = client.get(f"{ADDRESS}/query")
    assert answer.status_code == 200
    assert "<title>Queries" in answer.text
    assert "On this page" in answer.text


def test_the_index_and_the_decisions_are_pages_and_every_page_of_the_node_leads_there(client):
    assert f'href="{ADDRESS}"' in client.get("/").text
    index = client.get(ADDRESS).text
    assert f'href="{ADDRESS}/query"' in index
    assert client.get(f"{ADDRESS}/decisions/query").status_code == 200


def test_pictures_of_the_manual_are_shown_by_its_pages(client):
    picture = client.get(f"{ADDRESS}/pictures/dataset.png")
    assert picture.headers["content-type"] == "image/png"
    assert picture.content == (DOCS / "pictures" / "dataset.png").read_bytes()
    assert "img-src 'self';" in client.get(ADDRESS).headers["content-security-policy"]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("webhooks delivered", "events#webhooks"),
        ("tenancy", "tenancy#"),
        ("time zone csv", "ingestion#"),
        ("BACKUPS", "backup#"),
    ],
)
def test_search_finds_sections_by_words_and_their_stems(client, query, page):
    found = client.get(ADDRESS, params={"q": query}).text
    assert f'href="{ADDRESS}/{page}' in found
    assert "<mark>" in found


@pytest.mark.parametrize("query", ['"', "NEAR(a b)", "a-b*", "text:x", "\0", "(", "AND OR NOT"])
def test_a_search_is_words_and_never_a_query_language(client, query):
    assert client.get(ADDRESS, params={"q": query}).status_code == 200


def test_words_that_are_nowhere_find_no_section_and_markup_stays_text(client):
    answer = client.get(ADDRESS, params={"q": "<script>zzyzx</script>"})
    assert "No sections with" in answer.text
    assert "<script>zzyzx" not in answer.text


def test_a_search_that_is_too_long_and_a_page_that_is_not_there_are_refused(client):
    answer = client.get(ADDRESS, params={"q": "x" * (MAX_QUERY_CHARS + 1)})
    assert answer.status_code == 400
    assert str(MAX_QUERY_CHARS) in answer.text
    for path in ("nothing", "pictures/nothing.png", "decisions/nothing"):
        missing = client.get(f"{ADDRESS}/{path}")
        assert (missing.status_code, "search" in missing.text) == (404, True)


def test_a_browser_that_has_the_page_gets_no_second_copy(client):
    first = client.get(f"{ADDRESS}/trust", headers={"accept-encoding": "identity"})
    again = client.get(f"{ADDRESS}/trust", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
