"""Programs that harvest by OAI-PMH are told what everybody may read, and what is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from service import Service, described, serving
from sharing_client import run_beside
from table_made import ITEMS, TableMade, item

from odf_node.service.catalogs import oai
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports.values import Visibility

OAI = "{http://www.openarchives.org/OAI/2.0/}"
DC = "{http://purl.org/dc/elements/1.1/}"
LIST = {"verb": "ListIdentifiers", "metadataPrefix": "oai_dc"}
ODD = "rain \x01 & <snow>"


class Ticking:
    """A clock that is two seconds later each time."""

    def __init__(self) -> None:
        self.ns = Instant.parse("2026-05-01T00:00:00.25Z").ns

    def __call__(self) -> Instant:
        self.ns += 2 * NANOS
        return Instant(self.ns)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: Any) -> Iterator[Service]:
    with serving(tmp_path, tenancy="multi") as service:
        stores = service.node.stores
        clock = Ticking()
        for register in (stores.registry, stores.refs):
            monkeypatch.setattr(register, "_clock", clock)
        yield service


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("empty")) as service:
        yield service


def made(service: Service, name: str, visibility: Visibility = Visibility.PUBLIC) -> TableMade:
    return TableMade(service.node.stores, f"kamu/{name}", ITEMS, visibility=visibility)


def asked(service: Service, **arguments: str) -> Xml.Element:
    with service.http() as http:
        answer = http.get("/oai", params={key.rstrip("_"): at for key, at in arguments.items()})
    assert (answer.status_code, answer.headers["content-type"]) == (200, oai.MEDIA_TYPE)
    return Xml.fromstring(answer.content)


def headers(service: Service, **arguments: str) -> dict[str, tuple[str, bool]]:
    """Time, and whether it is gone, of each dataset that is told, in the order of the answer."""
    told = asked(service, **LIST, **arguments).iter(f"{OAI}header")
    return {
        str(each.findtext(f"{OAI}identifier")): (
            str(each.findtext(f"{OAI}datestamp")),
            each.get("status") == "deleted",
        )
        for each in told
    }


def test_each_change_that_everybody_sees_has_its_time_and_what_is_gone_is_told(service):
    stores = service.node.stores
    first, second = made(service, "first"), made(service, "second")
    hidden = made(service, "hidden", Visibility.PRIVATE)
    never = made(service, "never", Visibility.PRIVATE)
    ids = [str(each.entry.id) for each in (first, second, hidden)]
    assert list(headers(service)) == ids[:2]

    def change(last: str) -> dict[str, tuple[str, bool]]:
        """The list, whose last one has to be this."""
        told = headers(service)
        assert list(told)[-1] == last
        times = [time for time, _ in told.values()]
        assert sorted(times) == times
        return told

    first.add([item(1)])
    change(ids[0])
    stores.rename_dataset(second.entry.id, DatasetAlias.parse("kamu/other"))
    change(ids[1])
    stores.set_visibility(hidden.entry.id, Visibility.PUBLIC)
    assert change(ids[2])[ids[2]][1] is False
    stores.set_visibility(hidden.entry.id, Visibility.PRIVATE)
    assert change(ids[2])[ids[2]][1] is True
    stores.forget_dataset(first.entry.id)
    told = change(ids[0])
    assert [gone for _, gone in told.values()] == [False, True, True]
    stores.forget_dataset(never.entry.id)
    assert headers(service) == told
    stores.set_visibility(hidden.entry.id, Visibility.PUBLIC)
    assert [gone for _, gone in change(ids[2]).values()] == [False, True, False]


def test_a_node_on_which_everybody_reads_everything_tells_all_of_it(tmp_path):
    with serving(tmp_path, anonymous_reads="all") as service:
        gone = made(service, "gone", Visibility.PRIVATE)
        kept = made(service, "kept", Visibility.PRIVATE)
        service.node.stores.forget_dataset(gone.entry.id)
        told = {name: is_gone for name, (_, is_gone) in headers(service).items()}
    assert told == {str(kept.entry.id): False, str(gone.entry.id): True}


def test_times_that_are_asked_for_are_included_by_second_and_by_day(service):
    ids = [str(made(service, name).entry.id) for name in "ab"]
    (first, _), (second, _) = headers(service).values()
    assert list(headers(service, from_=second)) == ids[1:]
    assert list(headers(service, until=first)) == ids[:1]
    assert list(headers(service, from_="2026-05-01", until="2026-05-01")) == ids
    assert headers(service, from_="2026-05-02") == {}


def test_pages_go_on_where_they_ended_while_datasets_change(service, monkeypatch):
    monkeypatch.setattr(oai, "RECORDS", 2)
    tables = [made(service, name) for name in "abcde"]
    ids = [str(each.entry.id) for each in tables]
    page, found = asked(service, **LIST, until="2026-12-31"), []
    tables[0].add([item(1)])
    while True:
        found += [str(each.text) for each in page.iter(f"{OAI}identifier")]
        token = page.findtext(f".//{OAI}resumptionToken")
        if not token:
            break
        assert token.split() == [token]
        page = asked(service, verb="ListIdentifiers", resumptionToken=token)
    assert found == [*ids, ids[0]]
    assert page.find(f".//{OAI}resumptionToken") is not None  # the end is said, and empty


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "badVerb"),
        ({"verb": "Nothing"}, "badVerb"),
        ({"verb": "ListRecords"}, "badArgument"),
        ({"verb": "Identify", "more": "x"}, "badArgument"),
        ({**LIST, "from": "2026"}, "badArgument"),
        ({**LIST, "from": "2026-13-01"}, "badArgument"),
        ({**LIST, "until": "9999-12-31"}, "badArgument"),
        ({**LIST, "from": "2026-05-02", "until": "2026-05-01"}, "badArgument"),
        ({**LIST, "from": "2026-05-02", "until": "2026-05-02T00:00:00Z"}, "badArgument"),
        ({**LIST, "from": "2026-05-01T00:00:00.2"}, "badArgument"),
        ({**LIST, "resumptionToken": "x"}, "badArgument"),
        ({**LIST, "metadataPrefix": "marc"}, "cannotDisseminateFormat"),
        ({**LIST, "set": "x"}, "noSetHierarchy"),
        ({"verb": "ListSets"}, "noSetHierarchy"),
        ({"verb": "ListRecords", "resumptionToken": "x,y"}, "badResumptionToken"),
        ({"verb": "ListRecords", "resumptionToken": ",,,"}, "badResumptionToken"),
        ({"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": "\x01"}, "idDoesNotExist"),
        ({"verb": "ListMetadataFormats", "identifier": "did:odf:x"}, "idDoesNotExist"),
        (LIST, "noRecordsMatch"),
    ],
)
def test_bad_requests_are_told_in_the_document(empty, arguments, code):
    with empty.http() as http:
        answers = [http.get("/oai", params=arguments), http.post("/oai", data=arguments)]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        error = Xml.fromstring(answer.content).find(f"{OAI}error")
        assert (error.get("code"), bool(error.text)) == (code, True)


def test_an_argument_that_is_sent_twice_and_a_long_form_are_refused(empty):
    with empty.http() as http:
        twice = http.get("/oai", params=[("verb", "Identify"), ("verb", "Identify")])
        assert b"badVerb" in twice.content
        long = http.post("/oai", data={"verb": "x" * 10_000})
        assert long.status_code == 413


def test_a_private_dataset_is_not_found_and_one_that_was_public_is_gone(service):
    one = made(service, "one", Visibility.PRIVATE)
    wanted = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": str(one.entry.id)}
    assert asked(service, **wanted).find(f"{OAI}error").get("code") == "idDoesNotExist"
    stores = service.node.stores
    stores.set_visibility(one.entry.id, Visibility.PUBLIC)
    assert asked(service, **wanted).findtext(f".//{DC}title") == "one"
    stores.set_visibility(one.entry.id, Visibility.PRIVATE)
    record = asked(service, **wanted)
    assert record.find(f".//{OAI}header").get("status") == "deleted"
    assert "one" not in Xml.tostring(record, encoding="unicode")


HARVESTS = """
import json, sys
from sickle import Sickle
from oaipmh_scythe import Scythe
url, since = sys.argv[1:]
sickle = Sickle(url)
told = [[each.header.identifier, each.deleted, None if each.deleted else each.metadata]
        for each in sickle.ListRecords(metadataPrefix="oai_dc")]
from sickle.oaiexceptions import NoRecordsMatch
late = sickle.ListIdentifiers(**{"metadataPrefix": "oai_dc", "from": since})
try:
    sickle.ListIdentifiers(**{"metadataPrefix": "oai_dc", "from": "2100-01-01"}); none = False
except NoRecordsMatch:
    none = True
with Scythe(url) as scythe:
    other = [[each.header.identifier, each.deleted] for each in scythe.list_records()]
    formats = [each.metadataPrefix for each in scythe.list_metadata_formats()]
    name = scythe.identify().granularity
posted = [each.identifier for each in Sickle(url, http_method="POST").ListIdentifiers(
    metadataPrefix="oai_dc")]
print(json.dumps([told, [each.identifier for each in late], none, other, formats, name, posted,
                  sickle.Identify().adminEmail]))
"""


def test_sickle_and_scythe_harvest_all_pages(service, tmp_path, monkeypatch):
    tables = [made(service, name) for name in "abcde"]
    tables[4].commit(described(ODD))
    service.node.stores.forget_dataset(tables[0].entry.id)
    ids = [str(tables[at].entry.id) for at in (1, 2, 3, 4, 0)]
    since = headers(service)[ids[-2]][0]
    monkeypatch.setattr(oai, "RECORDS", 2)
    program = run_beside(HARVESTS, tmp_path, f"{service.url}/oai", since)
    told, late, none, other, formats, granularity, posted, contact = json.loads(program)
    gone = [[name, name == ids[-1]] for name in ids]
    assert [each[:2] for each in told] == other == gone
    assert told[3][2]["title"] == ["e"]
    assert told[3][2]["description"] == [ODD.replace("\x01", "\ufffd")]
    assert told[3][2]["identifier"] == [f"{service.url}/kamu/e", ids[3]]
    assert (late, none, posted) == (ids[-2:], True, ids)
    assert (formats, granularity) == (["oai_dc"], "YYYY-MM-DDThh:mm:ssZ")
    assert contact == "postmaster@127.0.0.1"
