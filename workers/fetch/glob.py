"""Many local files, one per fetch, in the order of their names or of their event times.

The state is the name of the last file read: files with an earlier name are never read, and of equal
names in several folders only one is.
"""

from __future__ import annotations

import glob
from itertools import islice
from pathlib import Path

from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.sources import (
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    SourceOrdering,
)

from .event_time import from_path
from .files import allowed_file, copied
from .values import (
    ETAG,
    EventTimeNotFound,
    Fetched,
    FetchedTooLarge,
    FetchRequest,
    FetchRules,
    MalformedSource,
    SourceMissing,
    SourceRefused,
    state,
)

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
    # Of equal names the first path counts, independent of the order in which folders are listed.
    paths = {path.name: path for path in sorted(_matches(step.path, request.rules), reverse=True)}
    ranks = {name: _rank(step, name) for name in paths}
    read_until = None if last is None else _rank_of_last(step, last)
    waiting = sorted(n for n, rank in ranks.items() if read_until is None or rank > read_until)
    if not waiting:
        if last is None:
            raise SourceMissing(f"no file matches {step.path}", path=step.path)
        return None
    name = min(waiting, key=ranks.__getitem__)
    copy, _ = copied(allowed_file(paths[name], request.rules), request)
    if copy is None:
        raise SourceMissing(f"the file {name} is gone", path=str(paths[name]))
    return Fetched(
        path=copy,
        state=state(ETAG, name),
        event_time=_event_time(step, name) or request.system_time,
        has_more=len(waiting) > 1,
        name=str(paths[name]),
    )


def _rank(step: FetchStepFilesGlob, name: str) -> Rank:
    """Return the sort key of a file. Names compare by their UTF-8 bytes, like texts elsewhere."""
    when = _event_time(step, name) if step.order is SourceOrdering.ByEventTime else None
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
        raise SourceRefused(
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
        raise FetchedTooLarge(
            f"the pattern matches more than {MAX_FILES} paths", limit="max_files", value=MAX_FILES
        )
    return [path for path in paths if path.is_file()]


def _fixed_part(pattern: str) -> Path:
    """Return the folders before the first wildcard: nothing above them is ever listed."""
    path = Path(pattern.removeprefix("file://"))
    if not path.is_absolute() or ".." in path.parts or "\0" in pattern:
        raise MalformedSource("a pattern of files is an absolute path without `..`", path=pattern)
    fixed = []
    for part in path.parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed)
