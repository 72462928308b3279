"""Attestations of a dataset folder: a file beside the chain, filled by pulls, given by pushes.

The file has one envelope a line, and only such as are about its dataset and whose signature is
good. A node is asked for what came after the last line that it gave, as `.remotes.json` notes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_protocol.trust.attestations import MAX_ENVELOPE_BYTES, Attestation

from ..nodes.http import open_http
from ..nodes.limits import LIMITS, ClientLimits, one_line
from ..nodes.node_api import NodeApi, NothingThere
from ..nodes.notices import Notice
from ..nodes.remotes import Location, note_attested, remotes_of
from ..transfer.folder import FolderRepository
from ..transfer.receive import ChainReader

FILE = ".attestations.intoto.jsonl"
MOST_PAGES = 100
"""Pages of attestations that one pull takes; the next one goes on."""
POST_BYTES = 512 * 1024
LINE = b"\n"


@dataclass(frozen=True, slots=True)
class AttestationFile:
    """The file of a dataset folder."""

    folder: Path
    dataset: DatasetId

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def all(self) -> Iterator[Attestation]:
        """Yield what the file has. Lines that are none, or of another dataset, are left out."""
        for line in self._lines():
            try:
                each = Attestation.parse(line)
            except BadInput:
                continue
            if each.dataset == self.dataset:
                yield each

    def _lines(self) -> Iterator[bytes]:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            while line := stream.readline(MAX_ENVELOPE_BYTES + len(LINE)):
                yield line.rstrip(LINE)

    def add(self, found: Iterable[Attestation]) -> int:
        """Append what is new; return how many."""
        known = {Multihash.of(line) for line in self._lines()}
        new = {each.id: each.envelope for each in found if each.id not in known}
        if new:
            with self.path.open("ab+") as stream:
                stream.write(self._before() + b"".join(line + LINE for line in new.values()))
                stream.flush()
                os.fsync(stream.fileno())
        return len(new)

    def _before(self) -> bytes:
        """Return what has to end an unfinished last line, as a crash leaves it."""
        if not self.path.stat().st_size:
            return b""
        with self.path.open("rb") as stream:
            stream.seek(-len(LINE), os.SEEK_END)
            return b"" if stream.read() == LINE else LINE


def checked(line: bytes, dataset: DatasetId) -> Attestation:
    """Read an attestation about a dataset. Raises `MalformedAttestation`, `OtherBlock`."""
    found = Attestation.parse(line)
    if found.dataset != dataset:
        raise BadInput("OtherBlock", f"the attestation is about dataset {found.dataset}")
    return found


def pages(
    api: NodeApi,
    dataset: DatasetId,
    after: int = 0,
    *,
    told: Callable[[BadInput], None] | None = None,
) -> Iterator[tuple[list[Attestation], int]]:
    """Yield what a node has, page by page, with the numbers after which to go on. With `told`,
    what is no attestation, or of a kind that only later versions know, is told and left out.

    Raises:
        MalformedAttestation, OtherBlock: without `told`, it gives what is none.
    """
    while True:
        lines, following = api.attestations(after)
        if not lines or following <= after:
            return
        after, found = following, list[Attestation]()
        for line in lines:
            try:
                found.append(checked(line, dataset))
            except BadInput as wrong:
                if told is None:
                    raise
                told(wrong)
        yield found, after


def take(
    folder: Path,
    source: Location,
    dataset: DatasetId,
    token: str | None,
    limits: ClientLimits = LIMITS,
) -> int:
    """Copy what the node has that a folder was pulled from; return how many are new. A problem is
    told and ends nothing: the chain has arrived."""
    after, found = remotes_of(folder).attested.get(_from(source), 0), list[Attestation]()
    wrong = list[BadInput]()
    try:
        with open_http(limits) as http:
            api = NodeApi(source.base, token, http=http, limits=limits)
            for page, following in islice(
                pages(api, dataset, after, told=wrong.append), MOST_PAGES
            ):
                found += page
                after = following
    except NothingThere:  # a node of another make, or a file server
        return 0
    except NodeError as error:
        _tell("taken", error)
        return 0
    if wrong:
        _tell(f"taken, {len(wrong)} of them", wrong[0])
    new = AttestationFile(folder, dataset).add(found)
    note_attested(folder, _from(source), after)
    return new


def give(folder: Path, target: Location, token: str | None, limits: ClientLimits = LIMITS) -> int:
    """Send what a folder has to the node that it was pushed to; return how many are new there. A
    problem is told and ends nothing."""
    if not (folder / FILE).exists():
        return 0
    file, given, new = file_of(folder), remotes_of(folder).attested.get(_to(target), 0), 0
    try:
        with open_http(limits) as http:
            api = NodeApi(target.base, token, http=http, limits=limits)
            for added, sent in posted(api, islice(file.all(), given, None)):
                new, given = new + added, given + sent
    except NothingThere:
        return 0
    except NodeError as error:
        _tell("given", error)
    note_attested(folder, _to(target), given)
    return new


def posted(api: NodeApi, found: Iterable[Attestation]) -> Iterator[tuple[int, int]]:
    """Send attestations to a node; yield for each request how many were new there, and sent."""
    for step in _posts(found):
        answer = api.attest(b"".join(each.envelope + LINE for each in step))
        yield int(answer.get("added", 0)), len(step)


def _posts(found: Iterable[Attestation]) -> Iterator[list[Attestation]]:
    step, size = list[Attestation](), 0
    for each in found:
        if step and size + len(each.envelope) > POST_BYTES:
            yield step
            step, size = [], 0
        step.append(each)
        size += len(each.envelope) + len(LINE)
    if step:
        yield step


def _from(source: Location) -> str:
    return f"from {source.base}"


def _to(target: Location) -> str:
    return f"to {target.base}"


def file_of(folder: Path) -> AttestationFile:
    """Return the file of a dataset folder. Raises `DatasetMissing`."""
    repository = FolderRepository(folder)
    return AttestationFile(folder, ChainReader(repository).dataset(repository.head()))


def _tell(what: str, error: NodeError) -> None:
    why = one_line(error.message)
    warnings.warn(Notice(f"attestations were not {what}: {why}"), stacklevel=3)
