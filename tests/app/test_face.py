"""A node has one name, sentence, contact, logo and colours, which all that people see of it say."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from xml.etree import ElementTree as Xml

import pytest
from refusals import refusing
from service import serving, ten_rows

from odf_node.service.settings import load_settings_of
from odf_node.service.system.face import MAX_LOGO_BYTES, FaceSettings, contrast, open_face

HTML = {"accept": "text/html"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
NAME, ABOUT = "Weather & Sons", "Rain <measured> every hour."
OAI = "{http://www.openarchives.org/OAI/2.0/}"


@contextmanager
def node_with(tmp_path, **face):
    """Serve a node that was started with these variables."""
    with ExitStack() as ends:
        with pytest.MonkeyPatch.context() as env:
            for name, text in face.items():
                env.setenv(f"ODF_FACE_{name.upper()}", text)
            service = ends.enter_context(serving(tmp_path / "node", tenancy="single"))
        service.keep(ten_rows(), "kamu/city")
        yield service


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("face")
    (folder / "logo.svg").write_bytes(SVG)
    face = {
        "name": NAME,
        "about": ABOUT,
        "contact": "data@weather.example",
        "imprint": "https://weather.example/imprint",
        "logo": str(folder / "logo.svg"),
        "color": "#8a1c1c",
        "dark_color": "#ffb0a0",
    }
    with node_with(folder, **face) as service:
        yield service


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with node_with(tmp_path_factory.mktemp("plain")) as service:
        yield service


def test_the_page_that_lets_a_command_line_in_says_whose_it_is(node, plain):
    with node.http() as http:
        for path in ("/v/login", "/v/login?deviceCode=unknown"):
            text = http.get(path, headers=HTML).text
            assert "<header>Weather &amp; Sons</header>" in text
            assert "– Weather &amp; Sons</title>" in text
            assert "--accent: #8a1c1c" in text
            assert "ODF Node" not in text
    with plain.http() as http:
        assert "<header>ODF Node</header>" in http.get("/v/login", headers=HTML).text


def test_pages_say_who_runs_the_node(node):
    with node.http() as http:
        home, page = (http.get(path, headers=HTML).text for path in ("/", "/city"))
    for text in (home, page):
        assert "– Weather &amp; Sons</title>" in text
        assert '<img class="logo" src="/v/icon" alt=""> Weather &amp; Sons</a>' in text
        assert '<meta property="og:site_name" content="Weather &amp; Sons">' in text
        assert 'href="mailto:data%40weather.example"' in text
        assert 'href="https://weather.example/imprint"' in text
    assert '<p class="lead">Rain &lt;measured&gt; every hour.</p>' in home


def test_catalogues_and_harvesters_are_told_the_same_name(node):
    with node.http() as http:
        catalogue = http.get("/catalog.jsonld").json()
        told = Xml.fromstring(http.get("/oai", params={"verb": "Identify"}).content)
    assert catalogue["dct:publisher"]["foaf:name"] == NAME
    assert (catalogue["dct:title"], catalogue["dct:description"]) == (f"Datasets of {NAME}", ABOUT)
    assert told.findtext(f"{OAI}Identify/{OAI}repositoryName") == NAME
    assert told.findtext(f"{OAI}Identify/{OAI}adminEmail") == "data@weather.example"


def test_clients_of_mcp_are_told_the_same_name(node):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}}
    about |= {"clientInfo": {"name": "a", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    with node.http() as http:
        accept = {"accept": "application/json, text/event-stream"}
        told = http.post("/mcp", json=asked, headers=accept).json()["result"]
    assert told["serverInfo"]["title"] == NAME
    assert told["instructions"].startswith(ABOUT)


def test_colours_of_the_node_follow_those_of_the_pages(node, plain):
    with node.http() as http, plain.http() as other:
        own, ours = (each.get("/v/style.css") for each in (http, other))
    assert own.headers["content-type"].startswith("text/css")
    assert own.text.startswith(ours.text)
    assert re.findall("#[0-9a-f]{6}", own.text[len(ours.text) :]) == ["#8a1c1c", "#ffb0a0"]


def test_the_icon_is_the_logo_and_runs_nothing_that_stands_in_it(node):
    with node.http() as http:
        icon = http.get("/v/icon")
    assert (icon.content, icon.headers["content-type"]) == (SVG, "image/svg+xml")
    assert icon.headers["content-security-policy"].startswith("default-src 'none';")
    assert "sandbox" in icon.headers["content-security-policy"]


def test_a_node_without_settings_has_our_name_and_icon(plain):
    with plain.http() as http:
        home, icon = http.get("/", headers=HTML).text, http.get("/v/icon")
    assert "<title>Datasets – ODF Node</title>" in home
    assert '<link rel="icon" href="/v/icon">' in home
    assert "Imprint" not in home
    assert Xml.fromstring(icon.content).tag.endswith("svg")


def test_programs_that_follow_links_find_the_site_map_and_no_form(plain):
    with plain.http() as http:
        rules = http.get("/robots.txt")
    assert rules.headers["content-type"].startswith("text/plain")
    lines = rules.text.splitlines()
    assert lines[0] == "User-agent: *"
    assert "Disallow: /v/sign-in" in lines
    assert "Disallow: /*?*query=" in lines
    assert "Disallow: /" not in lines
    assert lines[-1] == f"Sitemap: {plain.url}/sitemap.xml"


def test_a_closed_node_asks_them_to_stay_away(tmp_path):
    with serving(tmp_path, allow_anonymous=False) as closed, closed.http() as http:
        assert http.get("/robots.txt").text == "User-agent: *\nDisallow: /\n"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("COLOR", "#ffd700", "color .ODF_FACE_COLOR.: .*contrast of 1.4"),
        ("DARK_COLOR", "#202060", "dark_color .*contrast"),
        ("COLOR", "red; } body {", "color"),
        ("NAME", "two\nlines", "name"),
        ("CONTACT", "nobody", "contact"),
        ("IMPRINT", "javascript:alert(1)", "imprint"),
    ],
)
def test_a_face_that_nobody_could_read_or_use_is_refused(monkeypatch, name, text, why):
    monkeypatch.setenv(f"ODF_FACE_{name}", text)
    with refusing("InvalidSetting", match=why):
        load_settings_of(FaceSettings)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        (b"hello", "is neither SVG nor PNG nor JPEG"),
        (PNG + bytes(MAX_LOGO_BYTES), "has more than 65536 bytes"),
    ],
)
def test_a_logo_that_is_no_small_picture_is_refused(tmp_path, content, why):
    path = tmp_path / "logo"
    if content is not None:
        path.write_bytes(content)
    with refusing("InvalidSetting", match=f"ODF_FACE_LOGO.: the file {why}"):
        open_face(FaceSettings(logo=path))


def test_the_kind_of_a_logo_is_what_it_holds(tmp_path):
    (tmp_path / "logo.svg").write_bytes(PNG)
    assert open_face(FaceSettings(logo=tmp_path / "logo.svg")).logo_type == "image/png"


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
