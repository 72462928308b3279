"""Many local files, one per fetch, in the order of their names or of their event times.

The state is the name of the last file read. Files that sort before it are read only if the request
asks for them; otherwise those that were never read, or have other bytes now, are a warning. Of
equal names in several folders the first one has the name, which other nodes understand; the others
are called by their folders, too, and are read like files that came late.

Event times from file names, for sources that declare this.

Patterns are written by owners of datasets, so the engine that matches them takes time proportional
to the text (RE2, a dialect that the reference also has, without look-around).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput, LimitExceeded, RemoteFailed
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    SourceOrdering,
)
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import ADDRESS_KEY, FILES_KEY, address_mark
from odf_protocol.sources.source_rules import MAX_PATTERN_CHARS
from odf_protocol.sources.time_patterns import pattern_of
from odf_storage.datasets.dataset.info import chunks

from .files import allowed_file, changed_ns, copied, present_hash
from .values import ETAG, EventTimeNotFound, Fetched, FetchRequest, FetchRules, state

DEFAULT_FORMAT = "%Y-%m-%d"
MAX_FORMAT_CHARS = 100
_COMPOSED = {
    "%F": "%Y-%m-%d",
    "%T": "%H:%M:%S",
    "%R": "%H:%M",
    "%D": "%m/%d/%y",
    "%e": "%d",
    "%h": "%b",
    "%:z": "%z",
    "%#z": "%z",
}
"""Letters of strftime that Python cannot parse, replaced by letters that it can."""
_LETTER = re.compile(r"%(?:[:#]z|.)", re.DOTALL)


def from_path(rule: EventTimeSourceFromPath, name: str) -> Instant:
    """Return the time in group 1 of the pattern, at its first match in the name.

    Raises:
        EventTimeNotFound: no match, no group, or text that is no such date.
    """
    text = _group(rule.pattern, name)
    wanted = rule.timestamp_format or DEFAULT_FORMAT
    if len(wanted) > MAX_FORMAT_CHARS:
        raise EventTimeNotFound(f"a timestamp format has at most {MAX_FORMAT_CHARS} characters")
    if "%" not in wanted:
        return _of_pattern(wanted, text, name)
    known = _LETTER.sub(lambda match: _COMPOSED.get(match[0], match[0]), wanted)
    try:
        return _instant(datetime.strptime(text, known))
    except (ValueError, re.error, OverflowError) as bad:
        raise EventTimeNotFound(
            f"{text!r} in the file name {name!r} is no time of the form {wanted!r}",
            name=name,
            value=text,
            timestamp_format=wanted,
        ) from bad


def _of_pattern(wanted: str, text: str, name: str) -> Instant:
    """Parse a time in a pattern of Spark and Java."""
    try:
        pattern = pattern_of(wanted)
        when = datetime.fromisoformat(text) if pattern is None else pattern.read(text)
    except (ValueError, OverflowError) as bad:
        raise EventTimeNotFound(
            f"{text!r} in the file name {name!r} is no time of the form {wanted!r}",
            name=name,
            value=text,
            timestamp_format=wanted,
        ) from bad
    return Instant.from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))


def _instant(when: datetime) -> Instant:
    """Return the instant of a time with a zone; without a zone, the midnight that begins the day in
    UTC."""
    if when.tzinfo is None:
        when = when.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    return Instant.from_datetime(when)


def _group(pattern: str, name: str) -> str:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise EventTimeNotFound(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    names = pa.array([name])
    try:
        matches = pc.match_substring_regex(names, pattern)[0].as_py()
        # Replace the whole name by the group; the lazy start keeps the first match.
        around = rf"^(?s:.*?)(?:{pattern})(?s:.*)$"
        found = pc.replace_substring_regex(names, around, r"\1", max_replacements=1)[0].as_py()
    except pa.ArrowInvalid as bad:
        raise EventTimeNotFound(
            f"the pattern {pattern!r} is no regular expression with one group ({bad})",
            pattern=pattern,
        ) from None
    if not matches:
        raise EventTimeNotFound(
            f"the file name {name!r} does not match {pattern!r}", name=name, pattern=pattern
        )
    return str(found)


SHOWN_FILES = 10
"""Files that a warning names."""
MAX_FILES = 1_000_000
"""Limit of the paths that a pattern matches."""
Rank = tuple[int, str]


def fetch_files_glob(step: FetchStepFilesGlob, request: FetchRequest) -> Fetched | None:
    """Return the next file, or None if there is none after the last file read.

    Raises:
        SourceMissing: no file matches, on the first fetch.
        SourceRefused: files are outside the folders that this node reads.
        EventTimeNotFound: a file name, or that of the last file read, does not contain its time.
    """
    if isinstance(step.event_time, EventTimeSourceFromMetadata):
        raise EventTimeNotFound("the event time of files cannot be taken from their metadata")
    last = request.state_of(ETAG)
    place = address_mark(step.path, (), b"")
    paths, namesakes = _named(step, request.rules)
    ranks = {name: _rank(step, name) for name in (*paths, *namesakes)}
    read_until = None if last is None else _rank_of_last(step, last)
    earlier = {n: paths[n] for n in paths if read_until and ranks[n] <= read_until}
    waiting = paths.keys() - earlier.keys()
    paths |= namesakes
    late: list[str] = []
    if request.late_files or len(waiting) <= 1:
        late, changed = _behind({**earlier, **namesakes}, request, place)
        _warn(request, [] if request.late_files else late, changed, namesakes)
    if request.late_files:
        waiting |= set(late)
    waiting |= {name for name in request.again if name in paths}
    if missing := [name for name in request.again if name not in paths]:
        raise RemoteFailed(
            "SourceMissing", f"no file {missing[0]!r} matches {step.path}", path=step.path
        )
    if not waiting:
        if last is None:
            raise RemoteFailed("SourceMissing", f"no file matches {step.path}", path=step.path)
        return None
    name = min(waiting, key=ranks.__getitem__)
    copy, _ = copied(allowed_file(paths[name], request.rules), request)
    if copy is None:
        raise RemoteFailed("SourceMissing", f"the file {name} is gone", path=str(paths[name]))
    newest = last if last is not None and (name in earlier or name in namesakes) else name
    return Fetched(
        path=copy,
        state=state(ETAG, newest),
        event_time=_event_time(step, paths[name].name) or request.system_time,
        has_more=len(waiting) > 1,
        name=name,
        marks={FILES_KEY: {name: str(Multihash.of_chunks(chunks(copy)))}, ADDRESS_KEY: place},
    )


def _named(step: FetchStepFilesGlob, rules: FetchRules) -> tuple[dict[str, Path], dict[str, Path]]:
    """Return the files by name, and namesakes of them in other folders by their path below the
    folder where the pattern begins. The first path has the name, in whatever order folders are
    listed. Raises `SourceRefused`."""
    begin, paths, namesakes = _fixed_part(step.path), {}, {}
    for path in sorted(_matches(step.path, rules)):
        if not _is_utf8(str(path)):
            shown = repr(os.fsencode(path.name))[1:]
            raise BadInput(
                "SourceRefused",
                f"the name of the file {shown} is not UTF-8, so that no block could say that it "
                "was read: rename it, or leave it out of the pattern",
                path=shown,
            )
        if path.name in paths:
            namesakes[str(path.relative_to(begin))] = path
        else:
            paths[path.name] = path
    return paths, namesakes


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _behind(
    earlier: Mapping[str, Path], request: FetchRequest, place: str
) -> tuple[list[str], list[str]]:
    """Return the names of files before the last one read that were never read, and of those whose
    bytes are others than those that were read. Times tell nothing of a file that another pattern
    found, maybe in another folder."""
    late, changed = [], []
    for name, path in sorted(earlier.items()):
        try:
            status = path.stat()
        except OSError:  # it is gone, and waits for nothing
            continue
        modified = Instant(changed_ns(status))
        known = request.taken.files.get(name)
        stamp = str(path), status.st_size, modified.ns

        def holds(*hashes: str, path: Path = path, stamp: tuple[str, int, int] = stamp) -> bool:
            return present_hash(path) in hashes or _content_of(*stamp, request.content_of) in hashes

        first = request.taken.files.get(path.name)
        if known is None and first is not None and holds(*filter(None, first.hashes)):
            continue  # a namesake in a folder that sorts before took the name after it was read
        if known is None:
            forgotten = request.taken.forgotten
            if forgotten is None or modified > forgotten:
                late.append(name)
        elif known.hash and (modified > known.at or known.place not in (None, place)):
            if not holds(known.hash):
                changed.append(name)
        elif not known.hash and status.st_mtime_ns > known.at.ns:
            changed.append(name)
    return late, changed


@lru_cache(10_000)
def _content_of(path: str, _size: int, _changed: int, content_of: Callable[[Path], str]) -> str:
    """Return the hash of what a reader reads of a file; packed anew, it is no other file."""
    return content_of(Path(path))


def _warn(
    request: FetchRequest, behind: Sequence[str], changed: Sequence[str], namesakes: Container[str]
) -> None:
    late = [name for name in behind if name not in namesakes]
    if twins := [name for name in behind if name in namesakes]:
        what = "1 file has" if len(twins) == 1 else f"{len(twins)} files have"
        request.warnings.append(
            f"{what} the name of a file in another folder and {_was(twins)} never read: "
            f"{_shown(twins)} (refresh with lateFiles, --late-files, to take {_them(twins)}; files "
            "of different names are taken by themselves)"
        )
    if late:
        request.warnings.append(
            f"{_files(late)} before the last one read and {_was(late)} never read: "
            f"{_shown(late)} (refresh with lateFiles, --late-files, to take {_them(late)})"
        )
    if changed:
        verb = "has" if len(changed) == 1 else "have"
        request.warnings.append(
            f"{len(changed)} {'file' if len(changed) == 1 else 'files'} {verb} other bytes than "
            f"when {_they(changed)} read: {_shown(changed)} (refresh with file=NAME to read "
            f"{_them(changed)} again)"
        )


def _files(names: Sequence[str]) -> str:
    return "1 file sorts" if len(names) == 1 else f"{len(names)} files sort"


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _they(names: Sequence[str]) -> str:
    return "it was" if len(names) == 1 else "they were"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _shown(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_FILES
    return ", ".join(names[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")


def _rank(step: FetchStepFilesGlob, name: str) -> Rank:
    """Return the sort key of a file. Names compare by their UTF-8 bytes, like texts elsewhere."""
    when = _event_time(step, Path(name).name) if step.order is SourceOrdering.ByEventTime else None
    return (when.ns if when else 0, name)


def _rank_of_last(step: FetchStepFilesGlob, name: str) -> Rank:
    """Return the sort key of the last file read. Without its time, files that come after it are
    unknown; to guess them could skip some of them forever."""
    try:
        return _rank(step, name)
    except EventTimeNotFound as bad:
        raise EventTimeNotFound(
            f"{bad}; it is the last file that was read, and files are read by event time: change "
            "the pattern so that it matches this name as well, or order the files by name",
            **bad.facts,
        ) from bad


def _event_time(step: FetchStepFilesGlob, name: str) -> Instant | None:
    if isinstance(step.event_time, EventTimeSourceFromPath):
        return from_path(step.event_time, name)
    return None


def _matches(pattern: str, rules: FetchRules) -> list[Path]:
    """Return the files that the pattern matches; skip folders.

    Raises:
        SourceRefused: the pattern begins outside the folders that may be read.
    """
    begin = _fixed_part(pattern)
    roots = [root.resolve() for root in rules.roots]
    if not any(begin.resolve().is_relative_to(root) for root in roots):
        raise BadInput(
            "SourceRefused",
            "the source names local files outside of the folders this node reads; its "
            "administrator can allow a folder",
            path=pattern,
            setting="ODF_WORKER_FETCH_ROOTS",
        )
    # Use the pattern as a text: `Path` treats hidden files and `**` differently.
    plain = pattern.removeprefix("file://")
    found = glob.iglob(plain, recursive=True, include_hidden=True)  # noqa: PTH207
    paths = [Path(path) for path in islice(found, MAX_FILES + 1)]
    if len(paths) > MAX_FILES:
        raise LimitExceeded(
            "FetchedTooLarge",
            f"the pattern matches more than {MAX_FILES} paths",
            limit="max_files",
            value=MAX_FILES,
        )
    return [path for path in paths if path.is_file()]


def _fixed_part(pattern: str) -> Path:
    """Return the folders before the first wildcard: nothing above them is ever listed."""
    path = Path(pattern.removeprefix("file://"))
    if not path.is_absolute() or ".." in path.parts or "\0" in pattern:
        raise BadInput(
            "MalformedSource", "a pattern of files is an absolute path without `..`", path=pattern
        )
    fixed = []
    for part in path.parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed)
