"""`/oai`: the datasets that everybody may read, for programs that harvest catalogues.

Each refusal is an answer of status 200, as these programs expect. A dataset that was removed or is
no longer for everybody is told as deleted, with nothing but its id.

Source: Open Archives Initiative Protocol for Metadata Harvesting 2.0; Dublin Core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree as Xml

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import DAY_SECONDS, NANOS, Instant, day_or_instant
from odf_storage.runtime.clock import Clock
from odf_storage.stores.index.sql_disclosures import Disclosure, Disclosures
from odf_storage.stores.ports.values import DatasetEntry

from ..auth.access import is_for_all
from ..http.bodies import small_form
from ..http.deps import BaseDep, wired
from ..news.atom import NO_XML, add
from ..system.face import Face
from .catalogs import MEDIA_TYPE, Catalogs
from .routes import FRESH, CatalogsDep
from .told import DatasetTold

ADDRESS = "oai"
PREFIX = "oai_dc"
RECORDS = 100
"""Records of one answer."""
FORM_BYTES = 8_192
_OAI = "http://www.openarchives.org/OAI/2.0/"
_DC = {
    "xmlns:oai_dc": f"{_OAI}oai_dc/",
    "xmlns:dc": "http://purl.org/dc/elements/1.1/",
    "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "xsi:schemaLocation": f"{_OAI}oai_dc/ {_OAI}oai_dc.xsd",
}
_SECOND = len("2026-01-01T00:00:00Z")
_DAY = len("2026-01-01")
_BETWEEN = ","
"""Between the parts of a token."""


class _Verb(NamedTuple):
    needs: Collection[str] = ()
    takes: Collection[str] = ()
    has_pages: bool = False


_LIST = _Verb(("metadataPrefix",), ("from", "until", "set"), has_pages=True)
_VERBS = {
    "Identify": _Verb(),
    "ListMetadataFormats": _Verb((), ("identifier",)),
    "ListSets": _Verb(has_pages=True),
    "GetRecord": _Verb(("identifier", "metadataPrefix")),
    "ListIdentifiers": _LIST,
    "ListRecords": _LIST,
}


def _refused(code: str, message: str) -> BadInput:
    """A refusal; `code` is one of the protocol."""
    return BadInput("OaiRefused", message, oai=code)


@dataclass(frozen=True)
class Harvest:
    """Answers one request."""

    catalogs: Catalogs
    disclosures: Disclosures
    base: str
    name: str
    contact: str
    now: Instant

    def answer(self, asked: Sequence[tuple[str, str]]) -> bytes:
        """Return the document for arguments as they were sent."""
        root = Xml.Element("OAI-PMH", xmlns=_OAI)
        add(root, "responseDate", _seconds(self.now))
        request = add(root, "request", f"{self.base}{ADDRESS}")
        try:
            arguments = _checked(asked)
            made = Xml.Element(arguments["verb"])
            self._fill(made, arguments)
        except BadInput as error:
            code = str(error.facts.get("oai", "badArgument"))
            made = Xml.Element("error", code=code)
            made.text = NO_XML.sub("\ufffd", error.message)
        if made.get("code") not in ("badVerb", "badArgument"):
            request.attrib |= {name: NO_XML.sub("\ufffd", text) for name, text in asked}
        root.append(made)
        written: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
        return written

    def _fill(self, made: Xml.Element, asked: dict[str, str]) -> None:
        if asked.get("metadataPrefix", PREFIX) != PREFIX:
            raise _refused("cannotDisseminateFormat", f"records are told as {PREFIX} only")
        match asked["verb"]:
            case "Identify":
                self._identify(made)
            case "ListSets":
                raise _refused("noSetHierarchy", "this node has no sets")
            case "ListMetadataFormats":
                if "identifier" in asked:
                    self._find(asked["identifier"])
                told = add(made, "metadataFormat")
                add(told, "metadataPrefix", PREFIX)
                add(told, "schema", f"{_OAI}oai_dc.xsd")
                add(told, "metadataNamespace", f"{_OAI}oai_dc/")
            case "GetRecord":
                self._tell(made, [self._find(asked["identifier"])], is_whole=True)
            case verb:
                self._list(made, asked, is_whole=verb == "ListRecords")

    def _identify(self, made: Xml.Element) -> None:
        first = self.disclosures.page(limit=1)
        add(made, "repositoryName", self.name)
        add(made, "baseURL", f"{self.base}{ADDRESS}")
        add(made, "protocolVersion", "2.0")
        add(made, "adminEmail", self.contact)
        add(made, "earliestDatestamp", _seconds(first[0].at if first else self.now))
        add(made, "deletedRecord", "persistent")
        add(made, "granularity", "YYYY-MM-DDThh:mm:ssZ")

    def _list(self, made: Xml.Element, asked: dict[str, str], *, is_whole: bool) -> None:
        if "set" in asked:
            raise _refused("noSetHierarchy", "this node has no sets; leave set out")
        token = asked.get("resumptionToken")
        since, until, after = _resumed(token) if token is not None else (*_bounds(asked), None)
        found = self.disclosures.page(after=after, since=since, before=until, limit=RECORDS + 1)
        if not found and token is None:
            raise _refused("noRecordsMatch", "no dataset changed in this time")
        self._tell(made, found[:RECORDS], is_whole=is_whole)
        if len(found) > RECORDS:
            at, dataset = found[RECORDS - 1]
            add(made, "resumptionToken", _BETWEEN.join(map(str, (since, until, at, dataset))))
        elif token is not None:
            add(made, "resumptionToken")

    def _find(self, identifier: str) -> Disclosure:
        try:
            found = self.disclosures.find(DatasetId.parse(identifier))
        except BadInput:
            found = None
        if found is None:
            raise _refused("idDoesNotExist", "no dataset of this node has this id")
        return found

    def _tell(self, made: Xml.Element, told: Sequence[Disclosure], *, is_whole: bool) -> None:
        """Add records, or only their headers."""
        entries = self.catalogs.stores.registry.find_all([each.dataset for each in told])
        for each in told:
            entry = entries.get(each.dataset)
            record = add(made, "record") if is_whole else made
            header = add(record, "header")
            add(header, "identifier", str(each.dataset))
            add(header, "datestamp", _seconds(each.at))
            if entry is None or not is_for_all(entry, self.catalogs.access.reads):
                header.set("status", "deleted")
            elif is_whole:
                self._describe(add(record, "metadata"), entry)

    def _describe(self, metadata: Xml.Element, entry: DatasetEntry) -> None:
        made = Xml.SubElement(metadata, "oai_dc:dc", _DC)
        for name, text in _dublin_core(self.catalogs.told(entry, self.base)):
            add(made, f"dc:{name}", text)


def _dublin_core(dataset: DatasetTold) -> Iterator[tuple[str, str]]:
    yield "title", dataset.name
    yield "creator", dataset.account
    yield from (("subject", word) for word in dataset.keywords)
    yield "description", dataset.description
    yield "publisher", dataset.account
    yield "date", dataset.modified
    yield "type", "Dataset"
    yield from (("identifier", each) for each in (dataset.url, dataset.id))
    if dataset.license is not None:
        yield "rights", dataset.license


def _checked(asked: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the arguments by name."""
    arguments = dict(asked)
    verb = _VERBS.get(arguments.get("verb", ""))
    counts = Counter(name for name, _ in asked)
    if verb is None or counts["verb"] > 1:
        raise _refused("badVerb", f"verb is one of {', '.join(_VERBS)}, once")
    given = set(arguments) - {"verb"}
    if verb.has_pages and given == {"resumptionToken"}:
        given.clear()
    elif missing := set(verb.needs) - given:
        raise _refused("badArgument", f"{arguments['verb']} needs {min(missing)}")
    if unknown := given - {*verb.needs, *verb.takes}:
        raise _refused("badArgument", f"{arguments['verb']} does not take {min(unknown)[:50]!r}")
    if counts.total() > len(counts):
        raise _refused("badArgument", "an argument is sent once")
    return arguments


def _bounds(asked: dict[str, str]) -> tuple[Instant | None, Instant | None]:
    """Return the time from which, and that before which, changes are asked for."""
    given = [asked[name] for name in ("from", "until") if name in asked]
    lengths = {len(text) for text in given}
    if not lengths <= {_DAY} and not lengths <= {_SECOND}:
        raise _refused("badArgument", "from and until are both YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ")
    since, until = (
        day_or_instant(asked[name]) if name in asked else None for name in ("from", "until")
    )
    if since is not None and until is not None and until < since:
        raise _refused("badArgument", "until is before from")
    if until is not None:
        until = Instant(until.ns + (DAY_SECONDS if lengths == {_DAY} else 1) * NANOS)
    return since, until


def _resumed(token: str) -> tuple[Instant | None, Instant | None, Disclosure]:
    try:
        *bounds, at, dataset = token.split(_BETWEEN)
        since, until = (None if text == "None" else Instant.parse(text) for text in bounds)
        return since, until, Disclosure(Instant.parse(at), DatasetId.parse(dataset))
    except (BadInput, ValueError):
        raise _refused("badResumptionToken", "this is no token of a list of this node") from None


def _seconds(time: Instant) -> str:
    return str(Instant(time.ns // NANOS * NANOS))


@dataclass(frozen=True)
class Harvesting:
    """What answers need besides the catalogue."""

    disclosures: Disclosures
    face: Face
    clock: Clock


router = APIRouter(tags=["datasets"])


async def harvest_of(
    catalogs: CatalogsDep,
    base: BaseDep,
    parts: Annotated[Harvesting, Depends(wired(Harvesting))],
) -> Harvest:
    contact = parts.face.contact or f"postmaster@{urlsplit(base).hostname}"
    return Harvest(catalogs, parts.disclosures, base, parts.face.name, contact, parts.clock())


HarvestDep = Annotated[Harvest, Depends(harvest_of)]


@router.get(f"/{ADDRESS}", summary="Datasets that anybody may read, by OAI-PMH")
def harvest(request: Request, harvest: HarvestDep) -> Response:
    """Return the answer to the arguments of the address."""
    return _document(harvest.answer(request.query_params.multi_items()))


@router.post(f"/{ADDRESS}", summary="The same, with a form of arguments")
async def harvest_by_form(request: Request, harvest: HarvestDep) -> Response:
    """Return the answer to the arguments of the body."""
    asked = await small_form(request, FORM_BYTES)
    return _document(await run_in_threadpool(harvest.answer, list(asked.items())))


def _document(text: bytes) -> Response:
    return Response(text, headers=FRESH, media_type=MEDIA_TYPE)
