"""Pull by the simple protocol: walk the source back, compare, copy, check, move the head.

    source            destination         without force            with force
    ------            -----------         -------------            ----------
    missing           any                 DatasetMissing           DatasetMissing
    any               missing             everything               everything
    equal                                 up to date               up to date
    ahead by n                            n blocks                 n blocks
    behind by n                           DestinationAhead(n)      everything again
    diverged                              Diverged(m, n)           everything again

The source is any readable repository, the target a folder or bucket. A push into a folder or bucket
is the same operation. A node that mirrors pulls into its stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash

from .limits import LIMITS, ClientLimits
from .linked import fetch_links
from .objects import Fetcher, missing_in
from .progress import UNWATCHED, Progress
from .receive import NeededObject, Outcome, objects_of, refuse_uncommon, while_at
from .repositories import Repository
from .target import Target
from .walk import ChainReader, Relation, compare


def pull_simple(
    source: Repository,
    target: Target,
    *,
    force: bool = False,
    limits: ClientLimits = LIMITS,
    progress: Progress = UNWATCHED,
) -> Outcome:
    """Bring the target to the head of the source; readers see the change only at the end.

    Raises:
        DatasetMissing, DestinationAhead, Diverged, SeedOverwrite, ChainRuleBroken,
        HashMismatch, SourceObjectMissing, SourceRewritten, ObjectSizeMismatch, TransferFailed,
        FolderBusy
    """
    head = source.head()
    with target.locked(), while_at(source, head):
        old = target.find_head()
        theirs = ChainReader(source, limits=limits, progress=progress)
        ours = ChainReader(target, limits=limits)
        new = _blocks_to_pull(theirs, head, ours, old, force=force)
        if not new:
            return Outcome(outcome="up-to-date", old_head=old, new_head=head)
        target.check(new, old=old, force=force)
        missing = _fetch_objects(source, target, new, limits=limits, progress=progress)
        fetched = fetch_links(source, target, new, old=old, limits=limits, progress=progress)
        target.move_head(expected=old, new=new)
    return Outcome(
        outcome="updated",
        old_head=old,
        new_head=head,
        blocks=len(new),
        objects=len(missing),
        linked=fetched,
        bytes=sum(one.size for one in missing),
    )


def _blocks_to_pull(
    theirs: ChainReader,
    head: Multihash,
    ours: ChainReader,
    old: Multihash | None,
    *,
    force: bool,
) -> list[HashedBlock]:
    """Return the blocks after our head, or the whole chain if it replaces ours; oldest first."""
    if old is None:
        return theirs.chain(head)
    found = compare(theirs, head, ours, old)
    if found.relation is Relation.EQUAL:
        return []
    if found.relation is Relation.AHEAD:
        return list(found.source_only)
    if not force:
        refuse_uncommon(found)
    return theirs.chain(head)


def _fetch_objects(
    source: Repository,
    target: Target,
    new: Sequence[HashedBlock],
    *,
    limits: ClientLimits,
    progress: Progress,
) -> list[NeededObject]:
    missing = missing_in(target, objects_of(new, limits), parallel=limits.parallel_simple)
    progress.expect_objects(len(missing), sum(one.size for one in missing))
    fetcher = Fetcher(
        target,
        lambda needed: source.open_object(needed.kind, needed.hash),
        limits=limits,
        progress=progress,
    )
    fetcher.fetch(missing, parallel=limits.parallel_simple)
    return missing
