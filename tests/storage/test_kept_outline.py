"""What an outline keeps of a long chain changes nothing of it, whatever happened to the chain or to
the file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from service import SCHEMA, Chain, Service, described, seeded

from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import AddPushSource, DisablePushSource, SetDataSchema
from odf_protocol.metadata.sources import MergeStrategyLedger, ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.read import kept_outline, view
from odf_storage.datasets.read.kept_outline import KeptOutline
from odf_storage.datasets.read.view import outline_of
from odf_storage.stores.index import sql_blocks
from odf_storage.stores.index.stored_block import decode_stored
from odf_storage.stores.keyed.folder import Below
from odf_storage.stores.ports.values import ObjectKey

LONG = 10


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(view, "LONG", LONG)
    service = Service(open_node(Settings(data=tmp_path)), "")
    yield service
    service.node.stores.close()


def dataset_of(service: Service, chain: Chain) -> tuple[Dataset, KeptOutline]:
    dataset = service.node.stores.dataset(DatasetRef(id=chain.id))
    return dataset, KeptOutline(service.node.stores.projections, chain.id)


def begun() -> Chain:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    return chain.add_rows(1)


def grown(service: Service, chain: Chain, choice: random.Random) -> None:
    """Some blocks more: rows, sources that come and go, other events."""
    expected, count, known = chain.head, len(chain.blocks), set(chain.objects)
    for _ in range(choice.randrange(1, 2 * LONG)):
        kind = choice.randrange(8)
        is_active = "one" in chain.state.push_sources
        if kind == 0:
            merge = MergeStrategyLedger(primary_key=(f"key {choice.random()}",))
            chain.add(AddPushSource(source_name="one", read=ReadStepNdJson(), merge=merge))
        elif kind == 1 and is_active:
            chain.add(DisablePushSource(source_name="one"))
        elif kind == 2:
            chain.add(described(f"described {choice.random()}"))
        else:
            chain.add_rows(choice.randrange(1, 3))
    for kept in chain.objects.keys() - known:
        key = ObjectKey(chain.id, *kept)
        service.node.stores.objects.put(key, [chain.objects[kept]])
    dataset_of(service, chain)[0].commit(chain.blocks[count:], expected=expected)


@pytest.mark.parametrize("seed", range(3))
def test_an_outline_from_what_is_kept_is_that_of_all_blocks(service: Service, seed: int) -> None:
    chain, choice = begun(), random.Random(seed)
    service.keep(chain)
    dataset, kept = dataset_of(service, chain)
    for _ in range(8):
        grown(service, chain, choice)
        mark = choice.choice(chain.blocks).hash
        for each in (mark, Multihash.of(b"elsewhere"), None):
            assert outline_of(dataset, kept=kept, mark=each) == outline_of(dataset, mark=each)
        assert outline_of(dataset, kept=kept, mark=mark).is_marked
    assert kept.read(dataset, dataset.head()) is not None


def test_blocks_that_are_kept_are_not_decoded_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = begun()
    for _ in range(3 * LONG):
        chain.add_rows(1)
    service.keep(chain)
    dataset, kept = dataset_of(service, chain)
    whole = outline_of(dataset, kept=kept)
    decoded: list[Multihash] = []

    def counted(name: Multihash, raw: bytes) -> Any:
        decoded.append(name)
        return decode_stored(name, raw)

    monkeypatch.setattr(sql_blocks, "decode_stored", counted)
    assert outline_of(dataset, kept=kept) == whole
    assert len(decoded) < LONG
    service.extend(chain, 1)
    decoded.clear()
    assert len(outline_of(dataset, kept=kept).slices) == 3 * LONG + 2
    assert len(decoded) < LONG


def test_what_is_kept_of_another_history_is_left_out(service: Service) -> None:
    chains = [begun(), begun()]
    for chain in chains:
        for _ in range(LONG):
            chain.add_rows(1)
        service.keep(chain, f"kamu/chain-{chains.index(chain)}")
    (one, kept), (other, _) = (dataset_of(service, chain) for chain in chains)
    outline_of(one, kept=kept)
    assert kept.read(one, one.head()) is not None
    assert outline_of(other, kept=kept) == outline_of(other)
    older = chains[0].blocks[5].hash
    outline_of(one, kept=kept)
    assert outline_of(one, older, kept=kept) == outline_of(one, older)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", bytes(100), msgspec.json.encode([0, b"", [], []])]
)
def test_a_file_that_cannot_be_read_is_made_anew(service: Service, content: bytes) -> None:
    chain = begun()
    for _ in range(LONG):
        chain.add_rows(1)
    service.keep(chain)
    dataset, kept = dataset_of(service, chain)
    kept._store.put(kept_outline._KEY, [content])
    assert outline_of(dataset, kept=kept) == outline_of(dataset)
    assert kept.read(dataset, dataset.head()) is not None


def test_an_outline_that_cannot_be_kept_is_still_made(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = begun()
    for _ in range(LONG):
        chain.add_rows(1)
    service.keep(chain)
    dataset, kept = dataset_of(service, chain)

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Below, "put", full)
    assert outline_of(dataset, kept=kept) == outline_of(dataset)
