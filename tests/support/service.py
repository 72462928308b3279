"""The service on a real socket, in a thread of the test, and chains to serve with it."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from constants import apart, constants
from fastapi import FastAPI

from odf_node.service.accounts.accounts import create_token, ensure_account
from odf_node.service.features import features
from odf_node.service.main import PREFIX, build_app
from odf_node.service.main import _add_routes as add_routes
from odf_node.service.processes.server import NodeServer, server_config
from odf_node.service.settings import Settings
from odf_node.service.wiring import Node, open_node
from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.columns.arrow_digest import digest_of
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    HashedBlock,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odf_protocol.multihash import Multihash
from odf_storage.runtime.clock import Clock, system_clock
from odf_storage.stores.ports.values import (
    DatasetEntry,
    ObjectKey,
    ObjectKind,
    Scope,
    Visibility,
)

NOON = Instant.parse("2050-01-01T12:00:00Z")


@dataclass
class Service:
    """A served node: its address, and the node behind it for setting things up."""

    node: Node
    url: str

    def token(
        self, account: str = "kamu", *scopes: Scope, expires_at: Instant | None = None
    ) -> str:
        accounts = self.node.stores.accounts
        owner = ensure_account(accounts, account, os.urandom)
        made = create_token(
            accounts,
            owner,
            os.urandom,
            self.node.clock(),
            scopes=scopes or Scope,
            expires_at=expires_at,
        )
        return str(made)

    def http(self, token: str | None = None) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=90)

    def keep(
        self, chain: Chain, alias: str = "kamu/foo", visibility: Visibility = Visibility.PUBLIC
    ) -> DatasetEntry:
        """Put a chain and its objects into the node's stores."""
        entry = DatasetEntry(
            chain.id, DatasetAlias.parse(alias), DatasetKind.Root, visibility, self.node.clock()
        )
        for (kind, name), content in chain.objects.items():
            self.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
        self.node.stores.create_dataset(entry, chain.blocks)
        return entry

    def extend(self, chain: Chain, rows: int) -> None:
        """A block with so many rows more, in the chain and on the node that keeps it."""
        expected, count, known = chain.head, len(chain.blocks), set(chain.objects)
        chain.add_rows(rows)
        for kind, name in chain.objects.keys() - known:
            content = chain.objects[kind, name]
            self.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
        dataset = self.node.stores.dataset(DatasetRef(id=chain.id))
        dataset.commit(chain.blocks[count:], expected=expected)


@contextmanager
def serving(data: Path, *, clock: Clock = system_clock, **given: Any) -> Iterator[Service]:
    """Serve a node in `data` until the block ends, with these settings and constants."""
    settings, others = apart(given)
    with constants(**others):
        yield from _serving(data, clock, settings, as_ever=not others)


_KNOWN: list[tuple[Any, list[Any]]] = []
"""Routes of sets of features, by tenancy. A route knows nothing of its node, and to make all of
them takes longer than most tests."""


def know_routes() -> None:
    """Make the routes of the features that there are now. No test may have patched anything yet:
    what a route has taken from its module stays as it is."""
    for prefix in PREFIX.values():
        if _known(prefix) is None:
            api = FastAPI()
            before = len(api.router.routes)
            add_routes(api, prefix)
            routes = api.router.routes[before:]
            for each in routes:  # else the first request would make what they are below the node
                list(getattr(each, "effective_route_contexts", list)())
            _KNOWN.append(((features(), prefix), routes))


def _known(prefix: str) -> list[Any] | None:
    return next((routes for made, routes in _KNOWN if made == (features(), prefix)), None)


def _add_known(api: FastAPI, prefix: str) -> None:
    routes = _known(prefix)
    if routes is None:
        add_routes(api, prefix)
    else:
        api.router.routes.extend(routes)


def app_of(node: Node, *, as_ever: bool) -> Any:
    """The service on a node, with known routes unless constants are not as ever."""
    with pytest.MonkeyPatch.context() as patch:
        if as_ever:
            patch.setattr("odf_node.service.main._add_routes", _add_known)
        return build_app(node)


def _serving(
    data: Path, clock: Clock, settings: dict[str, Any], *, as_ever: bool
) -> Iterator[Service]:
    given = {"port": 0, "workers": 0, "shutdown_s": 2, **settings}
    node = open_node(Settings(data=data, **given), clock=clock)
    server = NodeServer(server_config(app_of(node, as_ever=as_ever), node.settings))
    listening = threading.Event()

    def listens(_: int) -> None:
        node.flight.start()
        listening.set()

    server.on_listening = listens
    server.on_stopping = node.head_watch.end
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not listening.is_set():
        if not thread.is_alive() or time.monotonic() > deadline:
            raise TimeoutError("the service did not start")
        time.sleep(0.005)
    try:
        yield Service(node, f"http://127.0.0.1:{server.port}")
    finally:
        server.should_exit = True
        thread.join(timeout=90)
        node.stores.close()


@dataclass
class Chain:
    """A root dataset built block by block, with the content of its objects."""

    id: DatasetId
    blocks: list[HashedBlock] = field(default_factory=list)
    objects: dict[tuple[ObjectKind, Multihash], bytes] = field(default_factory=dict)
    state: ChainState = EMPTY

    def add(self, *events: Any) -> Chain:
        blocks, self.state = author(self.state, events, system_time=NOON)
        self.blocks += blocks
        return self

    def add_rows(
        self, count: int, *, checkpoint: bytes | None = None, declared: Multihash | None = None
    ) -> Chain:
        """AddData with a Parquet slice of `count` rows, under the logical hash that is declared."""
        content = parquet_rows(self.state.next_offset, count)
        return self.add_slice(content, count, checkpoint=checkpoint, declared=declared)

    def add_slice(
        self,
        content: bytes,
        count: int,
        *,
        checkpoint: bytes | None = None,
        declared: Multihash | None = None,
    ) -> Chain:
        """AddData with a Parquet file that holds `count` rows."""
        start = self.state.next_offset
        piece = DataSlice(
            logical_hash=declared or digest_of(pq.ParquetFile(io.BytesIO(content))).finish(),
            physical_hash=Multihash.of(content),
            offset_interval=OffsetInterval(start=start, end=start + count - 1),
            size=len(content),
        )
        self.objects[ObjectKind.DATA, piece.physical_hash] = content
        kept = None
        if checkpoint is not None:
            kept = Checkpoint(physical_hash=Multihash.of(checkpoint), size=len(checkpoint))
            self.objects[ObjectKind.CHECKPOINT, kept.physical_hash] = checkpoint
        return self.add(
            AddData(
                prev_checkpoint=self.state.last_checkpoint,
                prev_offset=self.state.last_offset,
                new_data=piece,
                new_checkpoint=kept,
                new_watermark=NOON,
            )
        )

    @property
    def head(self) -> Multihash:
        return self.blocks[-1].hash


def seeded(seed: bytes | None = None) -> Chain:
    """A chain of one Seed block."""
    dataset = key_pair(seed or os.urandom(32)).dataset_id
    chain = Chain(dataset)
    return chain.add(Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root))


def described(text: str = "ten rows") -> SetInfo:
    return SetInfo(description=text, keywords=("test",))


def ten_rows(seed: bytes | None = None) -> Chain:
    """Seed, SetInfo, SetDataSchema, AddData with ten records and a checkpoint."""
    chain = seeded(seed).add(described(), SetDataSchema(schema=SCHEMA))
    return chain.add_rows(10, checkpoint=os.urandom(321))


SCHEMA = DataSchema(
    fields=(
        DataField(name="offset", type=DataTypeInt64()),
        DataField(name="op", type=DataTypeInt32()),
        DataField(name="system_time", type=DataTypeTimestamp()),
        DataField(name="event_time", type=DataTypeTimestamp()),
        DataField(name="city", type=DataTypeOption(inner=DataTypeString())),
        DataField(name="population", type=DataTypeOption(inner=DataTypeInt64())),
    )
)


def parquet_rows(start: int, count: int) -> bytes:
    """A slice of the above schema; cities `c0`, `c1`, … by offset."""
    utc = pa.timestamp("ms", "UTC")
    offsets = list(range(start, start + count))
    table = pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "op": pa.array([0] * count, pa.int32()),
            "system_time": pa.array([NOON.millis] * count, utc),
            "event_time": pa.array([NOON.millis] * count, utc),
            "city": pa.array([f"c{n}" for n in offsets]),
            "population": pa.array([n * 100 for n in offsets], pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=4)
    return sink.getvalue()


know_routes()
