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

A dataset in a bucket, in the simple layout: `s3://bucket/prefix/`, `s3+http://host/bucket/prefix/`.

The client hashes objects before it stores them, so no object is stored under a wrong hash. It
moves the head by a conditional write: if two clients move it at once, one gets an error.

Fetch the Seed of a remote dataset, which a node needs to create a mirror.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.metadata.events import HashedBlock, Seed
from odf_protocol.multihash import HashMismatch, Multihash
from odf_protocol.transfer.messages import (
    PULL_SUCCEEDED,
    DatasetMetadataPullResponse,
    DatasetPullMetadataRequest,
    DatasetPullRequest,
    DatasetPullResponse,
    DatasetPullSuccess,
)
from odf_storage.stores.objects.layout import HEAD, object_path, ref_path
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.http import TransferFailed, dataset_missing, open_http
from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.remotes import Location, Transfer
from ..nodes.repositories import HttpRepository, Repository, parse_head
from .linked import Fetcher, Target, fetch_links, missing_in
from .receive import (
    UNWATCHED,
    ChainReader,
    NeededObject,
    Outcome,
    Progress,
    Relation,
    check_follows,
    compare,
    objects_of,
    refuse_uncommon,
    while_at,
)
from .smart_pull import blocks_of, check_plan, success_of
from .socket import conversation


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


IN_MEMORY_BYTES = 8 * 1024 * 1024
MAX_ONE_PUT_BYTES = 5 * 1024**3
"""Limit of bytes that S3 accepts in one request."""
AT_ONCE = 16
_HEAD = str(ref_path(HEAD))


class BucketRepository:
    """One dataset below a prefix. boto3 finds the credentials."""

    def __init__(self, url: str, *, limits: ClientLimits = LIMITS) -> None:
        """Connect to the bucket. Raises `MalformedStoreUrl`, `BucketsNeedAnExtra`."""
        try:
            from odf_storage.stores.objects.s3_bucket import Bucket, S3Location
        except ModuleNotFoundError as missing:
            raise BadInput(
                "BucketsNeedAnExtra",
                f"datasets in S3 need the package {missing.name}: install odf-node[s3]",
            ) from None
        self.name = url
        self._bucket = Bucket(S3Location.parse(url.rstrip("/")))
        self._limits = limits
        self._head_etag: str | None = None

    def find_head(self) -> Multihash | None:
        from odf_storage.stores.objects.s3_bucket import KeyMissing

        try:
            answer = self._bucket.call("get_object", _HEAD)
        except KeyMissing:
            self._head_etag = None
            return None
        with answer["Body"] as body:
            text = body.read(self._limits.ref_bytes + 1)
        if len(text) > self._limits.ref_bytes:
            raise too_much("refs/head", self._limits.ref_bytes)
        self._head_etag = str(answer["ETag"])
        return parse_head(text, self.name)

    def head(self) -> Multihash:
        found = self.find_head()
        if found is None:
            raise dataset_missing(self.name)
        return found

    def block_bytes(self, block: Multihash) -> bytes:
        limit = self._limits.block_bytes
        with self.open_object(ObjectKind.BLOCK, block) as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise too_much(f"block {block}", limit)
        return raw

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        from odf_storage.stores.objects.s3_bucket import KeyMissing
        from odf_storage.stores.objects.s3_stream import open_stream

        try:
            return open_stream(self._bucket, str(object_path(kind, object_hash)))
        except KeyMissing:
            raise ObjectNotFound(kind, object_hash) from None

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Compare only the size, since every object was hashed before it was stored."""
        from odf_storage.stores.objects.s3_bucket import KeyMissing

        try:
            return self._bucket.size(str(object_path(kind, object_hash))) == size
        except KeyMissing:
            return False

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        """Hash an object and store it. Raises `HashMismatch`, `TooMuch`."""
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as spooled:
            actual = Multihash.of_chunks(_copied(chunks, spooled))
            if actual != object_hash:
                raise HashMismatch(object_hash, actual)
            spooled.seek(0)
            self._bucket.call("put_object", str(object_path(kind, object_hash)), Body=spooled)
        return None

    def put_all(self, objects: Sequence[tuple[ObjectKind, Multihash, bytes]]) -> None:
        for kind, name, content in objects:
            self.put(kind, name, (content,))

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        check_follows(self, new, old=old, force=force, limits=self._limits)

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        """Write the blocks, then move the head. Raises `BucketBusy`."""
        from odf_storage.stores.objects.s3_bucket import PreconditionLost

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._put_block, new))
        if self.find_head() != expected:
            raise Conflict(
                "BucketBusy", f"the head in {self.name} was moved by somebody else", at=self.name
            )
        only: dict[str, Any] = {"IfNoneMatch": "*"}
        if self._head_etag is not None:
            only = {"IfMatch": self._head_etag}
        try:
            self._bucket.call(
                "put_object",
                _HEAD,
                Body=str(new[-1].hash).encode(),
                ContentType="text/plain; charset=utf-8",
                **only,
            )
        except PreconditionLost:
            raise Conflict(
                "BucketBusy", f"the head in {self.name} was moved by somebody else", at=self.name
            ) from None

    def _put_block(self, block: HashedBlock) -> None:
        name = str(object_path(ObjectKind.BLOCK, block.hash))
        self._bucket.call("put_object", name, Body=io.BytesIO(block.raw))

    def locked(self) -> AbstractContextManager[None]:
        """Return a context without a lock: the conditional write of the head detects conflicts."""
        return nullcontext()


def _copied(chunks: Iterable[bytes], sink: Any) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_ONE_PUT_BYTES:
            raise too_much("an object", MAX_ONE_PUT_BYTES)
        sink.write(chunk)
        yield chunk


def first_block(
    source: Location, token: str | None = None, *, limits: ClientLimits = LIMITS
) -> tuple[HashedBlock, Seed]:
    """Return the first block, checked to be a Seed.

    Neither protocol can return this block alone.

    Raises:
        DatasetMissing, Refused, TransferFailed, HashMismatch, BlockMissing, TooMuch
    """
    with open_http(limits) as http:
        remote = HttpRepository(source.base, token, http=http, limits=limits)
        head = remote.head()
        if source.transfer is Transfer.SMART:
            first = _of_batch(source, token, limits)
        else:
            first = ChainReader(remote, limits=limits).chain(head)[0]
    if not isinstance(first.event, Seed):
        raise TransferFailed(
            "UnintelligibleAnswer", "the chain of the remote does not begin with a Seed"
        )
    return first, first.event


def _of_batch(source: Location, token: str | None, limits: ClientLimits) -> HashedBlock:
    with conversation(source, "pull", token, limits=limits) as talk:
        talk.send(DatasetPullRequest(force_update_if_diverged=False))
        plan = success_of(talk.receive(DatasetPullResponse), DatasetPullSuccess).transfer_plan
        check_plan(plan, limits)
        talk.send(DatasetPullMetadataRequest())
        batch = talk.receive(DatasetMetadataPullResponse).blocks
        blocks = blocks_of(batch, limits, encoding=talk.encoding)
        talk.close(PULL_SUCCEEDED)
    if not blocks:
        raise TransferFailed("UnintelligibleAnswer", "the node has a head, but sends no blocks")
    return blocks[0]
