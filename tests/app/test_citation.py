"""How to cite a dataset: a sentence, BibTeX and CITATION.cff, of its page and as files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from dataset_told import TOLD
from service import serving, ten_rows
from sharing_client import run_beside

from odf_node.service.citation.citation import bibtex, cff, datacite, sentence
from odf_protocol.metadata.events import SetInfo, SetLicense
from odf_storage.stores.ports.values import Visibility

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Any:
    with serving(tmp_path_factory.mktemp("cited"), tenancy="multi") as service:
        chain = ten_rows().add(
            SetInfo(description="A & B: 100% <b>", keywords=("rain", "rain", " ", "50 %")),
            SetLicense(
                short_name="CC BY", name="CC BY", spdx_id="CC-BY-4.0", website_url="https://x.org"
            ),
        )
        service.keep(chain, "anna/rain.days")
        service.keep(ten_rows(), "anna/hidden", Visibility.PRIVATE)
        yield service


def test_the_page_says_how_to_cite_the_dataset_as_of_its_head(node):
    with node.http() as http:
        page = http.get("/anna/rain.days", headers=HTML).text
        head = http.get("/anna/rain.days/refs/head").text
    shown = page[page.index("Cite it") :]
    assert re.search(rf"anna: rain.days, did:odf:\w+, block {head}\. {node.url}", shown)
    assert r"title = {{rain.days}}" in shown
    assert 'href="/anna/rain.days/citation.cff"' in shown


def test_both_are_files_at_the_address_of_the_dataset(node):
    with node.http() as http:
        bib, file = (http.get(f"/anna/rain.days/citation.{end}") for end in ("bib", "cff"))
        head = http.get("/anna/rain.days/refs/head").text
    assert bib.headers["content-type"] == "application/x-bibtex; charset=utf-8"
    assert f"url = {{{node.url}/anna/rain.days?block={head}}}" in bib.text
    assert file.headers["content-disposition"] == 'attachment; filename="CITATION.cff"'
    told = yaml.safe_load(file.text)
    assert (told["type"], told["license"]) == ("dataset", "CC-BY-4.0")
    assert told["abstract"] == "A & B: 100% <b>"
    assert told["keywords"] == ["rain", "50 %"]
    assert told["authors"] == [{"name": "anna"}]


@pytest.mark.parametrize("end", ["bib", "cff", "datacite.json"])
def test_what_nobody_may_read_is_not_cited_either(node, end):
    with node.http() as http:
        assert http.get(f"/anna/hidden/citation.{end}").status_code == 404


def test_no_text_ends_its_field():
    odd = replace(TOLD, name='a"}\n\\ $x^2$ ~ #1 {b}', description='x"\n- y: \x07\u2028 {z}')
    lines = bibtex(odd).splitlines()
    assert lines[2] == (
        r'  title = {{a"\} \textbackslash{} \$x\textasciicircum{}2\$ \textasciitilde{} \#1 \{b\}}},'
    )
    assert len(lines) == 8
    told = yaml.safe_load(cff(odd))
    assert told["title"] == 'a"} \\ $x^2$ ~ #1 {b}'
    assert told["abstract"] == 'x" - y: {z}'


@pytest.mark.parametrize(
    ("license_of", "told"),
    [
        ({}, {}),
        ({"spdx_id": "CC BY", "license": "https://x.org"}, {"license-url": "https://x.org"}),
        ({"license": "javascript:x"}, {}),
        ({"spdx_id": "MIT", "license": "https://x.org"}, {"license": "MIT"}),
    ],
)
def test_a_license_is_named_as_the_format_takes_it(license_of, told):
    found = yaml.safe_load(cff(replace(TOLD, **license_of)))
    assert {name: text for name, text in found.items() if name.startswith("license")} == told
    assert found["date-released"] == "2051-02-03"


def test_a_sentence_is_one_line():
    assert sentence(TOLD) == (
        "anna: rain, did:odf:fed01, block f1620abcdef12345678. http://node/anna/rain"
    )


TAKEN = """
import json, sys
from datacite import schema45
print(json.dumps([schema45.validate(each) for each in json.load(sys.stdin)]))
"""


def test_datacite_takes_the_metadata_of_any_dataset(node, tmp_path):
    with node.http() as http:
        served = http.get("/anna/rain.days/citation.datacite.json").json()
        head = http.get("/anna/rain.days/refs/head").text
    (license_of,) = served["rightsList"]
    assert license_of["rightsIdentifier"] == "CC-BY-4.0"
    assert license_of["rightsUri"] == "https://x.org"
    assert served["alternateIdentifiers"][1]["alternateIdentifier"] == head
    odd = replace(TOLD, description='x"\n\x07', keywords=(" ", "a"), license="https://x.org/a b")
    bare, wrong = datacite(odd), datacite(replace(TOLD, modified=""))
    assert bare["rightsList"] == [{"rightsUri": "https://x.org/a%20b"}]
    assert bare["subjects"] == [{"subject": "a"}]
    assert run_beside(TAKEN, tmp_path, given=json.dumps([served, bare])) == "[true, true]"
    assert run_beside(TAKEN, tmp_path, given=json.dumps([wrong])) == "[false]"
