"""Bits flip in stored objects under a running pipeline: nothing wrong comes of it, all is named.

python tests/torture/rotting.py --flips 1000 --seed 7        (`make torture`)

Two roots are posted to, one of them a ledger that is compacted; a derivative follows the other;
a dataset links to objects; everything is read, pulled and served meanwhile. Half of the flips are
rot, which no time of a file tells (nodes then hash at every read), half are writes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
from service import Service, serving, ten_rows
from tests.app.test_linked_objects import SCAN, SCAN_HASH, linking_chain
from tests.workers.datasets import created, ingest_options
from tests.workers.derivatives import derivative, node_of

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.metadata.sources import MergeStrategyAppend, MergeStrategyLedger
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.integrity.healing import retry_open_damages
from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.fsck import FsckOptions, check_stores
from odf_storage.datasets.verify.run import DatasetSource, FolderSource, verify_chain
from odf_storage.stores.objects.layout import KIND_FOLDERS
from odf_storage.stores.objects.local import LocalObjectStore
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.accounts import AuditFilter
from odf_storage.stores.ports.values import (
    DatasetEntry,
    JobStatus,
    ObjectKey,
    ObjectKind,
    Succeeded,
)
from odf_workers.program.loop import Worker

WHEN = "2024-01-01T00:00:00Z"
QUERY = 'select event_time, id, text, n * 10 as n from "rows-1"'
POSTS, LEDGER, TENS = "rows-1", "rows-2", "tens"
SETTLE_S = 180.0
STATE, REPLACED = "merge state damaged", "damaged object replaced"
"""What the log says."""
LONG_ROWS = 600
"""Rows of a body that travels as an object."""


@dataclass
class Flip:
    """One bit of one file."""

    kind: str
    path: Path
    key: ObjectKey | None
    at: float
    right: bytes


@dataclass
class Outcome:
    """What happened. `named` counts flips that somebody was told of; `gone` those in files that
    nothing leads to any more, such as blocks of a chain that was compacted since."""

    flips: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    gone: Counter[str] = field(default_factory=Counter)
    healed: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=dict)


def text_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


class Rotting:
    """The pipeline, and what was done to it."""

    def __init__(self, service: Service, folder: Path, dice: random.Random, *, rot: bool) -> None:
        self.service, self.folder, self.dice, self.rot = service, folder, dice, rot
        self.copies = LocalObjectStore(folder / "copies", durable=False)
        self.data = folder / "node"
        self.stores = open_stores(_settings(folder, rehash_s=0), migrate=False, repair=False)
        self.http = service.http(service.token())
        self.http.timeout = httpx.Timeout(SETTLE_S)  # a loaded machine is not what is judged
        self.gate = threading.Lock()
        self.outcome = Outcome()
        self.flips: list[Flip] = []
        self.sent: dict[str, set[int]] = {POSTS: set(), LEDGER: set()}
        self.taken: dict[str, set[int]] = {POSTS: set(), LEDGER: set()}
        self.told: list[tuple[float, str]] = []
        self.pulls = 0

    # --- the pipeline -----------------------------------------------------------------------

    def begin(self) -> None:
        created(self.stores, number=1, merge=MergeStrategyAppend())
        created(self.stores, number=2, merge=MergeStrategyLedger(primary_key=("id",)))
        chain = linking_chain()
        self.service.keep(chain, "kamu/scans")
        self.stores.objects.put(ObjectKey(chain.id, ObjectKind.DATA, SCAN_HASH), [SCAN])
        self.service.keep(ten_rows(), "kamu/pushed")
        self.post(POSTS)
        self.post(LEDGER)
        derivative(self.stores, TENS, [self.dataset(POSTS)], QUERY)
        self.refresh()
        self.idle()

    def dataset(self, name: str) -> Dataset:
        return self.stores.dataset(DatasetRef.parse(f"kamu/{name}"))

    def entries(self) -> list[DatasetEntry]:
        return list(self.stores.registry.page(limit=100))

    def body(self, name: str, *, rows: int) -> tuple[list[int], bytes]:
        begin = max(self.sent[name], default=-1) + 1
        numbers = list(range(begin, begin + rows))
        if name == LEDGER:  # a ledger takes known rows for known
            numbers += self.dice.sample(sorted(self.taken[name]), min(3, len(self.taken[name])))
        lines = (
            {"event_time": WHEN, "id": f"row {n}", "text": text_of(n), "n": n} for n in numbers
        )
        self.sent[name].update(numbers)
        return numbers, "".join(json.dumps(line) + "\n" for line in lines).encode()

    def send(self, name: str, numbers: list[int], body: bytes) -> httpx.Response:
        """Once, or until the answer is no refusal that names what has to be healed first."""
        headers = {"content-type": "application/x-ndjson"}
        answer = self.http.post(f"/{name}/ingest", content=body, headers=headers)
        deadline = time.monotonic() + SETTLE_S
        while answer.status_code == 202 and time.monotonic() < deadline:
            job = self.http.get(f"/jobs/{answer.json()['job']}").json()
            if job["finishedAt"] is not None:
                if job["status"] == "succeeded":
                    self.taken[name].update(numbers)
                else:
                    self.outcome.refused[f"post {job['error']['type'].rpartition(':')[2]}"] += 1
                return answer
            time.sleep(0.02)
        if answer.status_code == 200:
            self.taken[name].update(numbers)
        else:
            self.outcome.refused[f"post {_why(answer)}"] += 1
        return answer

    def post(self, name: str) -> None:
        self.send(name, *self.body(name, rows=self.dice.choice((3, 20, LONG_ROWS))))

    def refresh(self) -> None:
        job = transform_job.job_of(self.dataset(TENS).id, transform_job.TransformPayload())
        self.stores.jobs.submit(job)

    def compact(self) -> None:
        answer = self.http.post(f"/{LEDGER}/compact")
        if answer.status_code not in (200, 202):
            self.outcome.refused[f"compact {_why(answer)}"] += 1
        self.idle()

    def pull(self) -> None:
        name = self.dice.choice((POSTS, LEDGER, TENS, "scans", "pushed"))
        self.pulls += 1
        target = self.folder / f"pulled-{self.pulls}"
        scheme = self.dice.choice(("odf+", ""))
        try:
            sync.pull(
                Location.parse(f"{scheme}{self.service.url}/{name}"),
                Location.parse(str(target)),
                token=self.service.token(),
            )
        except NodeError as problem:
            self.outcome.refused[f"pull {problem.code}"] += 1
            return
        found = verify_chain(FolderSource(FolderObjects(target)), logical=name != "pushed")
        wrong = [each for each in found.problems if each.reason != "LinkedObjectMissing"]
        assert not wrong, f"a pull brought {wrong[0]}"
        shutil.rmtree(target)

    def read(self) -> None:
        name = self.dice.choice((POSTS, LEDGER, TENS))
        path = self.dice.choice(("read", "tail?limit=50"))
        try:
            answer = self.http.get(f"/{name}/{path}")
        except httpx.RemoteProtocolError:  # broken off
            self.outcome.refused["read broken off"] += 1
            return
        if answer.status_code != 200:
            assert answer.status_code in (500, 503), answer.text
            self.outcome.refused[f"read {_why(answer)}"] += 1
            return
        rows = (
            [json.loads(line) for line in answer.text.splitlines()]
            if path == "read"
            else answer.json()["data"]
        )
        for row in rows:
            _check_row(name, row)

    def get(self, flip: Flip | None = None) -> None:
        """An object; most often the one that was just damaged."""
        if flip is None or flip.key is None or flip.key.kind is ObjectKind.UPLOAD:
            return
        key, right = flip.key, flip.right
        entry = self.stores.registry.find(DatasetRef(id=key.dataset))
        assert entry is not None
        url = f"/{entry.alias.name}/{KIND_FOLDERS[key.kind]}/{key.hash}"
        end = self.dice.randrange(len(right))
        part = {"range": f"bytes=0-{end}"} if self.dice.random() < 0.3 else {}
        answer = self.http.get(url, headers=part)
        if answer.status_code in (200, 206):
            shown = right[: end + 1] if part and answer.status_code == 206 else right
            assert answer.content == shown, f"wrong bytes of {url}"
        else:
            assert answer.status_code in (404, 500, 503), answer.text
            self.outcome.refused[f"get {_why(answer)}"] += 1

    # --- harm -------------------------------------------------------------------------------

    def flip(self) -> Flip | None:
        kind = self.dice.choice(("block", "slice", "slice", "derived", "checkpoint", "linked"))
        kind = self.dice.choice((kind, kind, kind, "upload", "merge state"))
        if kind == "upload":
            return self.flip_upload()
        if kind == "merge state":
            found = sorted((self.folder / "states").rglob("*.arrow"))
            return self.harm(kind, self.dice.choice(found), None) if found else None
        key = self.dice.choice(self.candidates(kind))
        path = self.path(key)
        if not path.exists() or any(each.path == path for each in self.flips):
            return None
        if self.has_a_copy(key):
            with path.open("rb") as stream:
                self.copies.put(key, [stream.read()])
        return self.harm(kind, path, key)

    def has_a_copy(self, key: ObjectKey) -> bool:
        """What is no derivative's has a copy in half of the cases; else its owner puts it again."""
        return key.dataset != self.dataset(TENS).id and key.hash.digest[0] % 2 == 0

    def candidates(self, kind: str) -> list[ObjectKey]:
        if kind == "linked":
            return [ObjectKey(self.dataset("scans").id, ObjectKind.DATA, SCAN_HASH)]
        names = {
            "slice": (POSTS, LEDGER, "scans", "pushed"),
            "derived": (TENS,),
            "checkpoint": (TENS, "pushed"),
            "block": (POSTS, LEDGER, TENS, "scans", "pushed"),
        }[kind]
        dataset = self.dataset(self.dice.choice(names))
        blocks = dataset.blocks()
        if kind == "block":
            return [ObjectKey(dataset.id, ObjectKind.BLOCK, block.hash) for block in blocks]
        part, of = ("new_checkpoint", ObjectKind.CHECKPOINT)
        if kind != "checkpoint":
            part, of = ("new_data", ObjectKind.DATA)
        made = [getattr(block.event, part, None) for block in blocks]
        return [ObjectKey(dataset.id, of, each.physical_hash) for each in made if each is not None]

    def flip_upload(self) -> Flip:
        """A body that waits for the worker; sent again, it is taken."""
        name = self.dice.choice((POSTS, LEDGER))
        numbers, body = self.body(name, rows=LONG_ROWS)
        dataset, content = self.dataset(name).id, Multihash.of(body)
        with ThreadPoolExecutor(1) as beside:
            with self.gate:
                sending = beside.submit(self.send, name, numbers, body)
                deadline = time.monotonic() + SETTLE_S
                while (key := self.upload(dataset, content)) is None or not self.waiting():
                    assert time.monotonic() < deadline, "a body does not arrive"
                    time.sleep(0.01)
                flip = self.harm("upload", self.path(key), key)
            sending.result()
        assert not set(numbers) - {*self.taken[name]} or self.is_named(flip), "taken without a word"
        self.send(name, numbers, body)
        return flip

    def upload(self, dataset: DatasetId, content: Multihash) -> ObjectKey | None:
        """The key of a post's body; each post of these bytes has a copy of its own."""
        for found in self.stores.objects.list(dataset):
            if (found.key.kind, found.key.hash) == (ObjectKind.UPLOAD, content):
                return found.key
        return None

    def waiting(self) -> bool:
        return bool(self.stores.jobs.page(statuses=(JobStatus.WAITING,), kinds=("ingest",)))

    def harm(self, kind: str, path: Path, key: ObjectKey | None) -> Flip:
        right, before = path.read_bytes(), path.stat()
        at = self.dice.randrange(len(right))
        flip = Flip(kind, path, key, time.time(), right)
        with path.open("r+b") as file:  # in place, as it happens to a disk
            file.seek(at)
            file.write(bytes([right[at] ^ (1 << self.dice.randrange(8))]))
        if self.rot:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.outcome.flips[kind] += 1
        self.flips.append(flip)
        return flip

    def path(self, key: ObjectKey) -> Path:
        assert self.stores.objects.local_paths is not None
        return self.stores.objects.local_paths.path(key)

    # --- judgement --------------------------------------------------------------------------

    def idle(self) -> None:
        """No job waits or runs."""
        deadline = time.monotonic() + SETTLE_S
        while self.stores.jobs.page(statuses=(JobStatus.WAITING, JobStatus.RUNNING)):
            assert time.monotonic() < deadline, "a job is never done"
            time.sleep(0.02)

    def settle(self) -> None:
        """Everything is looked at, healed by whoever can, and judged."""
        for last in (False, True):  # links, and what was made of a slice, once it is whole
            self.idle()
            check_stores(self.stores, FsckOptions(repair=True))
            self.idle()
            self.heal_as_owner(last=last)
        self.post(LEDGER)  # which reads the merge state
        for flip in self.flips:
            self.judge_flip(flip)
        self.flips.clear()
        self.refresh()
        self.idle()
        report = check_stores(self.stores)
        assert report.ok, report.problems[0]
        for entry in self.entries():
            name = str(entry.alias.name)
            found = verify_chain(
                DatasetSource(self.stores.dataset(DatasetRef(id=entry.id))),
                logical=name != "pushed",
            )
            assert found.ok, f"{name}: {found.problems[0]}"
        for name in (POSTS, LEDGER, TENS):
            self.judge_rows(name)

    def heal_as_owner(self, *, last: bool) -> None:
        """Put again what nothing else brings back."""
        tens = self.dataset(TENS).id
        for damage in self.stores.damages.open(limit=1000):
            key = damage.key
            if key.dataset == tens and not last:
                continue  # its input has to be healed first
            assert key.dataset != tens, f"{key.kind} of a derivative is not healed: {damage}"
            assert not self.has_a_copy(key), f"not healed from its copy: {damage}"
            right = next(each.right for each in self.flips if each.key == key)
            self.stores.objects.put(key, [right])
        retry_open_damages(self.stores, limit=1000)
        assert not last or self.stores.damages.count() == 0

    def judge_flip(self, flip: Flip) -> None:
        if self.is_named(flip):
            self.outcome.named[flip.kind] += 1
            if flip.key is not None and flip.key.kind is not ObjectKind.UPLOAD:
                assert flip.path.read_bytes() == flip.right, f"{flip.path} is not healed"
                known = self.stores.damages.find(flip.key)
                replaced = self.was_replaced(flip)
                assert replaced or known is not None
                source = "made again" if replaced or known is None else known.healed_from
                self.outcome.healed[f"{flip.kind}: {source}"] += 1
            return
        assert self.is_gone(flip), f"nobody was told of {flip.kind} {flip.path}"
        self.outcome.gone[flip.kind] += 1

    def is_named(self, flip: Flip) -> bool:
        if flip.key is None:
            return any(at >= flip.at and STATE in text for at, text in self.told)
        if self.was_replaced(flip):
            return True
        audit_entries = self.stores.audit.page(AuditFilter(dataset=flip.key.dataset), limit=1000)
        name = str(flip.key.hash)
        return any(
            name in audit_entry.subject and audit_entry.at.ns / 1e9 >= flip.at - 1
            for audit_entry in audit_entries
        )

    def was_replaced(self, flip: Flip) -> bool:
        """Its right bytes were put again by who made the same ones: the log says so."""
        name = str(flip.key.hash) if flip.key is not None else ""
        return any(at >= flip.at and REPLACED in text and name in text for at, text in self.told)

    def is_gone(self, flip: Flip) -> bool:
        if flip.key is None:
            return not flip.path.exists()
        dataset = self.stores.dataset(DatasetRef(id=flip.key.dataset))
        blocks = dataset.blocks()
        named = {block.hash for block in blocks}
        named |= {
            part.physical_hash
            for block in blocks
            for part in (
                getattr(block.event, "new_data", None),
                getattr(block.event, "new_checkpoint", None),
            )
            if part is not None
        }
        return flip.key.hash not in named and flip.kind != "linked"

    def judge_rows(self, name: str) -> None:
        numbers: list[int] = []
        dataset = self.dataset(name)
        for block in dataset.blocks():
            data = getattr(block.event, "new_data", None)
            if data is None:
                continue
            with dataset.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                table = pq.read_table(io.BytesIO(stream.read()), columns=["id", "text", "n"])
            numbers += [_check_row(name, row) for row in table.to_pylist()]
        source = POSTS if name == TENS else name
        assert set(numbers) <= self.sent[source], f"{name}: rows that nobody sent"
        assert self.taken[source] <= set(numbers), f"{name}: rows are lost"
        assert len(numbers) == len(set(numbers)), f"{name}: rows are there twice"
        self.outcome.rows[name] = len(numbers)


def _check_row(name: str, row: dict[str, Any]) -> int:
    """The number of a row, which says all that is in it."""
    number = int(row["n"]) // (10 if name == TENS else 1)
    right = (f"row {number}", text_of(number))
    assert (row["id"], row["text"]) == right, f"a wrong row in {name}: {row}"
    return number


def _why(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["type"]).rpartition(":")[2]
    except ValueError:
        return str(answer.status_code)


def _settings(folder: Path, *, rehash_s: float) -> StoreSettings:
    return StoreSettings(
        data=folder / "node",
        object_copies=(f"file://{folder / 'copies'}",),
        rehash_s=rehash_s,
        durable=False,
    )


@contextmanager
def pipeline(folder: Path, dice: random.Random, *, rot: bool) -> Iterator[Rotting]:
    """A service, and a worker in a thread of its own."""
    rehash_s = 0.0 if rot else 3600.0
    over = threading.Event()
    copies = (f"file://{folder / 'copies'}",)
    with serving(
        folder / "node",
        follow_debounce_s=0.1,
        poll_s=0.1,
        object_copies=copies,
        rehash_s=rehash_s,
    ) as service:
        here = Rotting(service, folder, dice, rot=rot)
        listening = _Listening(here.told)
        logging.getLogger("odf.integrity").addHandler(listening)
        working = threading.Thread(target=_work, args=(here, rehash_s, over), daemon=True)
        working.start()
        try:
            here.begin()
            yield here
        finally:
            over.set()
            working.join(SETTLE_S)
            logging.getLogger("odf.integrity").removeHandler(listening)
            here.http.close()
            here.stores.close()


class _Listening(logging.Handler):
    """Remembers what the log says of damage, and when."""

    def __init__(self, told: list[tuple[float, str]]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.append((record.created, record.getMessage()))


def _work(here: Rotting, rehash_s: float, over: threading.Event) -> None:
    stores: Stores = open_stores(
        _settings(here.folder, rehash_s=rehash_s), migrate=False, repair=False
    )
    scratch = here.folder / "scratch"
    scratch.mkdir()
    states = MergeStates(here.folder / "states", max_bytes=1 << 30, rehash_s=rehash_s)
    worker = Worker(
        stores=stores,
        context=replace(node_of(stores, scratch), ingest=ingest_options(scratch, states=states)),
        name="rotting",
        lease=timedelta(seconds=30),
        longest_pause_s=0.05,
    )
    try:
        while not over.is_set():
            with here.gate:
                worker.work(once=True)
            over.wait(0.02)
    finally:
        stores.close()


def rotting(folder: Path, *, flips: int, seed: int, rot: bool, settle_every: int) -> Outcome:
    """Flip so many bits while everything goes on.

    Raises:
        AssertionError: something wrong was committed or shown, or nobody was told.
    """
    dice = random.Random(seed)
    with pipeline(folder, dice, rot=rot) as here:
        actions: list[Callable[[], None]] = [
            lambda: here.post(POSTS),
            lambda: here.post(LEDGER),
            here.compact,
            here.pull,
            here.read,
            here.refresh,
        ]
        names = ["post", "post to ledger", "compact", "pull", "read", "refresh"]
        while here.outcome.flips.total() < flips:
            flip = here.flip()
            if dice.random() < 0.6:
                here.get(flip)
            at = dice.randrange(len(actions))
            here.outcome.actions[names[at]] += 1
            actions[at]()
            if len(here.flips) >= settle_every:
                here.settle()
                counts = (here.outcome.flips, here.outcome.named, here.outcome.gone)
                print(*(counter.total() for counter in counts), "flips, named, gone", flush=True)
        here.settle()
        jobs = here.stores.jobs.page(limit=100_000)
        ended = Counter(
            f"{job.spec.kind} {'done' if isinstance(job.outcome, Succeeded) else 'failed'}"
            for job in jobs
        )
        here.outcome.actions.update(ended)
        return here.outcome


def main() -> None:
    words = argparse.ArgumentParser(description="Flip bits under a running pipeline, and judge.")
    words.add_argument("--flips", type=int, default=1000)
    words.add_argument("--seed", type=int, default=None)
    words.add_argument("--way", choices=("rot", "writes", "both"), default="both")
    given = words.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    for rot in (True, False):
        if given.way not in ("both", "rot" if rot else "writes"):
            continue
        folder = Path(tempfile.mkdtemp(prefix="odf-rotting-"))
        began = time.monotonic()
        outcome = rotting(folder, flips=given.flips // 2, seed=seed, rot=rot, settle_every=20)
        took = time.monotonic() - began
        print(f"{'rot' if rot else 'writes'}: {took:.0f} s")
        for name, counts in vars(outcome).items():
            print(f"  {name}: {dict(counts)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
