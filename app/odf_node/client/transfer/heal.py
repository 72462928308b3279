"""Heal a dataset folder from other repositories that have the dataset, file by file.

A damaged or missing file is requested from one source after the other. The client does not trust
them: a received file replaces the local one only if it has the hash in its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial

from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import NodeError, NotFound
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.http import Overloaded, Unreachable
from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.repositories import Repository
from .folder import FolderRepository, chunks_of
from .linked import Fetcher, fetch_link, linked_names
from .receive import UNWATCHED, NeededObject, objects_of

Opening = Callable[[], AbstractContextManager[Repository]]


@dataclass(frozen=True, slots=True)
class HealedFile:
    """A file that was damaged or missing. If `source` is None it still is; `problems` say why."""

    name: str
    source: str | None
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Sources:
    """The sources in the order of requests. A source that does not respond is not asked again."""

    openings: Sequence[tuple[str, Opening]]
    _stack: ExitStack = field(default_factory=ExitStack)
    _opened: dict[str, Repository] = field(default_factory=dict)
    _silent: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, name: str, bring: Callable[[Repository], bool]) -> HealedFile:
        """Fetch a file from the first source that has it; `bring` returns whether one has it."""
        problems = []
        for source, opening in self.openings:
            if source in self._silent:
                problems.append(f"{source}: {self._silent[source]}")
                continue
            try:
                if source not in self._opened:
                    self._opened[source] = self._stack.enter_context(opening())
                if bring(self._opened[source]):
                    return HealedFile(name, source, tuple(problems))
                problems.append(f"{source} does not have it")
            except (Unreachable, Overloaded) as problem:
                self._silent[source] = problem.message
                problems.append(f"{source}: {problem.message}")
            except (NodeError, OSError) as problem:  # the next source may have it
                problems.append(f"{source}: {problem}")
        return HealedFile(name, None, tuple(problems))


def heal_folder(
    folder: FolderRepository, openings: Sequence[tuple[str, Opening]], limits: ClientLimits = LIMITS
) -> list[HealedFile]:
    """Heal a folder. Return the damaged or missing blocks, slices, checkpoints and linked objects.

    The head must be readable. If no source has a block, the chain before it stays unknown.

    Raises:
        DatasetMissing, FolderBusy, TooMuch
    """
    head = folder.head()
    with folder.locked(), Sources(openings) as sources:
        healed: list[HealedFile] = []
        blocks = list(_blocks(folder, head, sources, limits, healed))
        blocks.reverse()
        healed += _objects(folder, blocks, sources, limits)
        healed += _links(folder, blocks, sources, limits)
    return healed


def _blocks(
    folder: FolderRepository,
    head: Multihash,
    sources: Sources,
    limits: ClientLimits,
    healed: list[HealedFile],
) -> Iterator[HashedBlock]:
    """Yield the healed chain, newest block first, up to a block that cannot be healed."""
    at: Multihash | None = head
    for _ in range(limits.blocks):
        if at is None:
            return
        block = _whole_block(folder, at)
        if block is None:
            healed.append(sources.ask(f"block {at}", partial(_block_of, folder, at)))
            block = _whole_block(folder, at)
        if block is None:
            return
        yield block
        at = block.prev
    raise too_much("the number of blocks", limits.blocks)


def _whole_block(folder: FolderRepository, name: Multihash) -> HashedBlock | None:
    try:
        return decode_block(folder.block_bytes(name), expected=name)
    except NodeError:
        return None


def _block_of(folder: FolderRepository, name: Multihash, source: Repository) -> bool:
    try:
        raw = source.block_bytes(name)
    except NotFound:
        return False
    folder.put(ObjectKind.BLOCK, name, (raw,))
    return True


def _objects(
    folder: FolderRepository, blocks: Sequence[HashedBlock], sources: Sources, limits: ClientLimits
) -> Iterator[HealedFile]:
    def bring(needed: NeededObject, source: Repository) -> bool:
        fetcher = Fetcher(folder, lambda one: source.open_object(one.kind, one.hash), limits=limits)
        return not fetcher.fetch([needed], parallel=1)

    for needed in objects_of(blocks, limits):
        if not _is_whole(folder, needed.kind, needed.hash):
            yield sources.ask(needed.name, partial(bring, needed))


def _links(
    folder: FolderRepository, blocks: Sequence[HashedBlock], sources: Sources, limits: ClientLimits
) -> Iterator[HealedFile]:
    def bring(name: Multihash, source: Repository) -> bool:
        return fetch_link(source, folder, name, limits, UNWATCHED)

    for name in linked_names(folder, blocks):
        if not _is_whole(folder, ObjectKind.DATA, name):
            yield sources.ask(f"linked object {name}", partial(bring, name))


def _is_whole(folder: FolderRepository, kind: ObjectKind, name: Multihash) -> bool:
    try:
        with folder.open_object(kind, name) as stream:
            return Multihash.of_chunks(chunks_of(stream)) == name
    except NotFound:
        return False
