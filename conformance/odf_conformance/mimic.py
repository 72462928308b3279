"""A client that behaves like the reference's command line client, down to its weaknesses.

    Mimic(url, token).push(chain)            smart push
    Mimic(url, token).pull(chain)            smart pull into the chain
    Mimic(url, token).simple_pull(chain)     simple pull into the chain

It shares only the codec of blocks with the node's code, and has separate code for sockets, JSON and
archives. It is strict where the reference is strict (positions, wrappings, text frames, frame
sizes), and ignores what the reference ignores (the status of downloads). `notes` collects odd but
harmless facts, `trace` the requests.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from . import shapes
from .archive import batch, decoded, joined, push_request, to_push, unpacked
from .chains import CHECKPOINTS, Block, Chain, hash_of, object_name
from .http import TIMEOUT_S, Answer, Headers, NotHttp, PeerDisconnected, Scissors, follow, request
from .shapes import Notes
from .websocket import (
    COMPLETE,
    RUNNING,
    CloseReason,
    Exchange,
    GaveUp,
    Result,
    hung_up,
    status_failure,
    unreadable,
)

VERSION = ("x-odf-smtp-version", "1")
PARALLEL = 10
Take = Callable[[dict[str, Any]], bool]


class Mimic:
    """A client of the dataset at `url`, anonymous without a token."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        scissors: Scissors | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self.url = url if url.endswith("/") else url + "/"
        self.token, self.scissors, self.timeout = token, scissors, timeout
        self.notes: Notes = []
        self.trace: list[str] = []

    # --- what both protocols share

    @property
    def bearer(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []

    def get(self, path: str, *, method: str = "GET") -> Answer:
        """Send a request to a path below the dataset."""
        self.trace.append(f"{method} {path.partition('/')[0]}")
        try:
            return follow(method, self.url + path, self.bearer, timeout=self.timeout)
        except PeerDisconnected as gone:
            raise hung_up(gone) from None
        except NotHttp as broken:
            raise unreadable(broken) from None

    def head(self) -> str | None:
        """Return the remote head, or None for an unknown dataset. The body is not trimmed."""
        self.trace.append("GET refs")
        try:
            answer = request(
                "GET",
                self.url + "refs/head",
                self.bearer,
                step="head",
                scissors=self.scissors,
                timeout=self.timeout,
            )
        except PeerDisconnected as gone:
            raise hung_up(gone) from None
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise GaveUp(
                CloseReason.INTERNAL, f"refs/head: HTTP {answer.status}", status=answer.status
            )
        if shapes.HASH.fullmatch(answer.text) is None:
            raise GaveUp(CloseReason.INTERNAL, f"refs/head is no hash: {answer.text[:100]!r}")
        return answer.text

    def exchange(self, path: str) -> Exchange:
        """Open a smart transfer. Raise `GaveUp` if the handshake is refused."""
        self.trace.append(f"upgrade {path}")
        headers = [VERSION, *self.bearer]
        return Exchange(self.url + path, headers, self.notes, self.scissors, self.timeout)

    # --- smart pull

    def pull(self, local: Chain, *, force: bool = False, take: Take | None = None) -> Result:
        """Update `local` to the remote head, without objects for which `take` returns false."""
        if self.head() is None:
            raise GaveUp(CloseReason.NOT_FOUND)
        with self.exchange("pull") as exchange:
            asked = {
                "begin_after": local.head,
                "stop_at": None,
                "force_update_if_diverged": force,
            }
            reply = exchange.ask(asked, shapes.PULL_RESPONSE, "request")
            old, planned = local.head, reply["Ok"]["transfer_plan"]["num_blocks"]
            if planned:
                self._take_over(exchange, local, take)
            exchange.close("Client pull flow succeeded")
        return Result(old, local.head or "", planned)

    def _take_over(self, exchange: Exchange, local: Chain, take: Take | None) -> None:
        reply = exchange.ask({}, shapes.PULL_METADATA, "metadata")
        blocks = unpacked(reply["blocks"])
        chain = joined(local, blocks)
        missing = [
            file
            for block in blocks
            for file in block.files
            if object_name(file) not in local.objects and (take is None or take(file))
        ]
        if missing:
            asked = {"object_files": missing}
            answer = exchange.ask(asked, shapes.PULL_OBJECTS, "objects")
            strategies = answer["object_transfer_strategies"]
            if [strategy["object_file"] for strategy in strategies] != missing:
                raise GaveUp(
                    CloseReason.INTERNAL, "the strategies are not those of the objects asked for"
                )
            self._all(self._download, strategies, local)
        local.blocks = chain

    def _download(self, strategy: dict[str, Any], local: Chain) -> None:
        """Download an object. As in the reference, only the hash detects errors, not the status."""
        folder, name = object_name(strategy["object_file"])
        self.trace.append(f"GET {folder}")
        source = strategy["download_from"]
        headers = [(header["name"], header["value"]) for header in source["headers"]]
        answer = self._transfer("GET", source["url"], headers, f"get {folder}")
        if hash_of(answer.body) != name:
            raise GaveUp(
                CloseReason.CORRUPTED, f"{folder}/{name}: HTTP {answer.status}, other content"
            )
        local.objects[folder, name] = answer.body

    # --- smart push

    def push(self, chain: Chain, *, force: bool = False, visibility: str = "Private") -> Result:
        """Push the blocks of `chain` that the remote lacks."""
        remote = self.head()
        start = to_push(chain, remote, force=force)
        blocks = chain.blocks[start:]
        if not blocks:
            return Result(remote, chain.head or "")
        with self.exchange("push") as exchange:
            asked = push_request(blocks, remote, force=force, visibility=visibility)
            exchange.ask(asked, shapes.PUSH_RESPONSE, "request")
            sent = {"new_blocks": batch([(block.hash, block.raw) for block in blocks])}
            exchange.ask(sent, shapes.PUSH_METADATA, "blocks")
            files = {"object_files": chain.files(start), "is_truncated": False}
            reply = exchange.ask(files, shapes.PUSH_OBJECTS, "objects")
            self._upload_all(exchange, reply["Ok"]["object_transfer_strategies"], chain)
            exchange.say(COMPLETE, "complete")
            confirmed = exchange.ask({}, shapes.EMPTY, "finish")
            if confirmed.get("closed"):
                # the reference takes any JSON object for a confirmation; then its own Close fails
                raise GaveUp(CloseReason.INTERNAL, "sending after closing is not allowed")
            exchange.close("Client push flow succeeded")
        return Result(remote, chain.head or "", len(blocks))

    def _upload_all(
        self, exchange: Exchange, strategies: Sequence[dict[str, Any]], chain: Chain
    ) -> None:
        """Put objects in parallel. Answer each message of the node meanwhile with the progress."""
        wanted = [item for item in strategies if item["push_strategy"] == "HttpUpload"]
        if self.scissors is not None:
            for strategy in wanted:
                self.upload(strategy, chain)
            return
        ours, theirs = socket.socketpair()
        with ours, theirs, ThreadPoolExecutor(PARALLEL) as pool:
            running = [pool.submit(self.upload, item, chain) for item in wanted]
            for future in running:
                future.add_done_callback(lambda _: theirs.send(b"."))
            while not all(future.done() for future in running):
                if exchange.socket.waiting(self.timeout, ours):
                    exchange.hear(shapes.EMPTY)
                    exchange.say(RUNNING)
                else:
                    ours.recv(1)
            _raise_first(running)

    def upload(self, strategy: dict[str, Any], chain: Chain) -> None:
        """Put one object with the given headers and the two of the client. Any 2xx is success."""
        folder, name = object_name(strategy["object_file"])
        self.trace.append(f"PUT {folder}")
        target = strategy["upload_to"]
        headers = [(header["name"], header["value"]) for header in target["headers"]]
        headers.append(("content-type", "application/octet-stream"))
        content = chain.objects[folder, name]
        answer = self._transfer("PUT", target["url"], headers, f"put {folder}", content)
        if not 200 <= answer.status < 300:
            raise GaveUp(CloseReason.INTERNAL, f"upload of {folder}/{name}: HTTP {answer.status}")

    def _transfer(
        self, method: str, url: str, headers: Headers, step: str, body: bytes | None = None
    ) -> Answer:
        try:
            return request(
                method,
                url,
                headers,
                body,
                step=step,
                scissors=self.scissors,
                timeout=self.timeout,
            )
        except PeerDisconnected as gone:
            raise GaveUp(CloseReason.INTERNAL, str(gone)) from None
        except NotHttp as broken:
            raise unreadable(broken) from None

    # --- simple pull

    def simple_pull(self, local: Chain, *, force: bool = False, take: Take | None = None) -> Result:
        """Update `local` to the remote head, block by block."""
        remote = self.head()
        if remote is None:
            raise GaveUp(CloseReason.NOT_FOUND)
        old, new = local.head, self._blocks_down_to(remote, local)
        common = local.position(new[0].prev if new else remote)
        behind = len(local.blocks) - (0 if common is None else common + 1)
        if not force and behind and new:
            raise GaveUp(CloseReason.DIVERGED, source=len(new), destination=behind)
        if not force and behind:
            raise GaveUp(CloseReason.AHEAD, by=behind)
        if behind:
            new = self._blocks_down_to(remote, Chain())
        if not new:
            return Result(old, remote)
        chain = joined(local, new)
        missing = [
            file
            for block in new
            for file in block.files
            if object_name(file) not in local.objects and (take is None or take(file))
        ]
        self._all(self._copy, missing, local)
        local.blocks = chain
        return Result(old, remote, len(new))

    def _blocks_down_to(self, head: str, local: Chain) -> list[Block]:
        """Return the remote blocks that `local` lacks, from the head back, oldest first."""
        blocks, wanted = list[Block](), head
        while local.position(wanted) is None:
            block = self.block(wanted)
            blocks.append(block)
            if block.prev is None:
                break
            wanted = block.prev
        return blocks[::-1]

    def block(self, name: str) -> Block:
        """Fetch a block by its hash, and check the hash."""
        answer = self.get(f"blocks/{name}")
        if answer.status != 200:
            raise status_failure(answer, f"blocks/{name}")
        if hash_of(answer.body) != name:
            raise GaveUp(CloseReason.CORRUPTED, f"blocks/{name} has other content")
        return decoded(answer.body)

    def _copy(self, file: dict[str, Any], local: Chain) -> None:
        folder, name = object_name(file)
        answer = self.get(f"{folder}/{name}")
        if answer.status == 404:
            what = "checkpoint" if folder == CHECKPOINTS else "data"
            raise GaveUp(CloseReason.CORRUPTED, f"Source {what} file is missing")
        if answer.status != 200:
            raise status_failure(answer, f"{folder}/{name}")
        if hash_of(answer.body) != name:
            raise GaveUp(CloseReason.CORRUPTED, f"{folder}/{name} has other content")
        local.objects[folder, name] = answer.body

    def exists(self, folder: str, name: str) -> bool:
        """Return whether the node has an object. As the reference does, ask by HEAD."""
        answer = self.get(f"{folder}/{name}", method="HEAD")
        if answer.status not in (200, 404):
            raise status_failure(answer, f"{folder}/{name}")
        return answer.status == 200

    def _all(
        self,
        work: Callable[[dict[str, Any], Chain], None],
        items: Iterable[dict[str, Any]],
        local: Chain,
    ) -> None:
        """Call `work` for all items: in parallel, or in order if a test cuts the connection."""
        if self.scissors is not None:
            for item in items:
                work(item, local)
            return
        with ThreadPoolExecutor(PARALLEL) as pool:
            _raise_first([pool.submit(work, item, local) for item in items])


def _raise_first(futures: Sequence[Future[None]]) -> None:
    wait(futures)
    for future in futures:
        future.result()
