"""The engine of a transform: noted for every execution, and preferred for its replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from odf_protocol.errors import NodeError
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.transforms import Transform
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import EngineNote, EngineRun, read_note, write_note
from odf_storage.datasets.node.stores import Stores

from ...engines.port.port import Engine, engine_for


@contextmanager
def noted_as_computed(
    stores: Stores, dataset: Dataset, engine: Engine, block: HashedBlock
) -> Iterator[None]:
    """Note the engine of a block before the block is committed, so that every executed block has a
    note.

    If the commit fails, the note is restored, because a received block may have that number. A
    note that was changed meanwhile belongs to the writer of that block, and stays.
    """
    run = EngineRun(block.sequence_number, engine.name, engine.version)
    with stores.locks.hold(dataset.id):
        known = read_note(stores.objects, dataset.id)
        note = known.with_run(run)
        if note != known:
            write_note(stores.objects, dataset.id, note)
    try:
        yield
    except NodeError:
        with stores.locks.hold(dataset.id):
            if note != known and read_note(stores.objects, dataset.id) == note:
                write_note(stores.objects, dataset.id, known)
        raise


def engine_of(
    transform: Transform,
    engines: Sequence[Engine],
    recorded: EngineRun | None,
    note: EngineNote = EngineNote(),
) -> Engine:
    """Return the engine for a replay: the recorded version if this node has it, or a version that
    replaces it.

    Raises:
        UnsupportedEngine: this node has no version of the engine.
    """
    newest = engine_for(transform, engines)
    if is_trusted(note, recorded, newest):
        return newest
    for engine in engines:  # a remote engine is asked for its version, so only if its name fits
        if recorded and engine.name == recorded.engine and engine.version == recorded.version:
            return engine
    return newest


def is_trusted(note: EngineNote, recorded: EngineRun | None, engine: Engine) -> bool:
    """Whether results of the engine can replace those of the recorded one."""
    if recorded is None or (recorded.engine, recorded.version) == (engine.name, engine.version):
        return True
    return any(
        (one.engine, one.old, one.new) == (engine.name, recorded.version, engine.version)
        for one in note.compatible
    )
