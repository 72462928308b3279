"""Run an engine from a container image, in one container per query.

The container sees only the files of the query, and serves at the port that images of ODF engines
use. A tag may move to another image, so the first query pins the image by its digest: later
queries run the same image, and executions record it as their engine version.

The folders that the container of an engine sees: they hold the files of one query.

Inputs are links or copies that every user of the image can read. The node copies the outputs, so
its own user owns them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from msgspec.structs import replace

from odf_protocol.errors import RemoteFailed
from odf_protocol.metadata.events import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    TransformRequest,
    TransformRequestInput,
    TransformResponse,
    TransformResponseInternalError,
)

from ...runtime.command import LOGGER, line
from ..port.port import QUERY_SECONDS, QUIET, EngineListener, Untraced
from .remote import RemoteEngine
from .runtimes import ContainerRules, Runtime, mounted

INSIDE = "/opt/engine"
OUTPUTS = f"{INSIDE}/out"


class Mounts:
    """The folders `in` and `out` of one query."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._inputs, self._outputs = base / "in", base / "out"
        base.chmod(0o755)
        self._inputs.mkdir()
        self._inputs.chmod(0o755)
        self._outputs.mkdir()
        self._outputs.chmod(0o777)  # the image may run as any user
        self._count = 0

    def options(self) -> list[str]:
        return [
            mounted(self._inputs, f"{INSIDE}/in"),
            mounted(self._outputs, OUTPUTS, writable=True),
        ]

    def shown(self, path: str) -> str:
        """Make a file readable for the engine, and return its path in the container."""
        name = f"{self._count}{Path(path).suffix}"
        self._count += 1
        _provide(Path(path), self._inputs / name)
        return f"{INSIDE}/in/{name}"

    def shown_of(self, item: TransformRequestInput) -> TransformRequestInput:
        return replace(
            item,
            data_paths=tuple(self.shown(path) for path in item.data_paths),
            schema_file=self.shown(item.schema_file),
        )

    def give(self, name: str, target: str) -> None:
        """Copy a file that the engine wrote to the target path. Symbolic links are ignored.

        Raises:
            PermissionError: only the user of the image can read it.
        """
        made = self._outputs / name
        if made.is_file() and not made.is_symlink():
            shutil.copyfile(made, target)


@contextmanager
def mounts_beside(target: str) -> Iterator[Mounts]:
    """Yield the folders of a query, in a temporary folder beside the file `target`."""
    parent = Path(target).absolute().parent
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as name:
        yield Mounts(Path(name))
    if Path(name).exists():  # folders of another user cannot be emptied
        LOGGER.warning(line("files an engine wrote as another user stay behind", folder=name))


def _provide(path: Path, at: Path) -> None:
    if path.stat().st_mode & stat.S_IROTH:
        try:
            os.link(path, at)
        except OSError:  # another file system, or one without links
            shutil.copyfile(path, at)
    else:
        shutil.copyfile(path, at)
    # A hard link shares the mode of the original, which is readable already.
    if not at.stat().st_mode & stat.S_IROTH:
        at.chmod(0o644)


IMAGE_PORT = 2884
START_SECONDS = 30.0
MAX_PIDS = 512
KILLED = 137
_LOOK_SECONDS = 0.5
_CONNECTING = [
    # By default the second attempt waits for one second, and the fifth for ten.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 500),
]
_INTERNAL = (RawQueryResponseInternalError, TransformResponseInternalError)


class EngineNotStarted(RemoteFailed):
    """The container of an engine could not be started, or did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """How to run images of engines. `network` names the runtime's network for the containers; None
    means the default of the runtime."""

    containers: ContainerRules
    network: str | None = None
    start_seconds: float = START_SECONDS
    pull_seconds: float = 600.0


class ContainerEngine(Untraced):
    """`Engine` that runs a container image."""

    def __init__(
        self, name: str, image: str, rules: EngineRules, *, seconds: float = QUERY_SECONDS
    ) -> None:
        self.name = name
        self._image, self._rules, self._seconds = image, rules, seconds
        self._pinned: str | None = None

    @property
    def version(self) -> str:
        """The image with its digest, by which it can be run again. If images cannot be run here,
        the name of the image."""
        try:
            return self._pin(self._runtime(QUIET), QUIET)
        except EngineNotStarted:
            return self._image

    def execute_raw_query(
        self, request: RawQueryRequest, listener: EngineListener = QUIET
    ) -> RawQueryResponse:
        with mounts_beside(request.output_data_path) as mounts:
            inner = replace(
                request,
                input_data_paths=tuple(mounts.shown(path) for path in request.input_data_paths),
                output_data_path=f"{OUTPUTS}/data",
            )
            try:
                answer = self._ask(mounts, listener, lambda e: e.execute_raw_query(inner, listener))
                self._give(mounts, {"data": request.output_data_path})
            except EngineNotStarted as bad:
                return RawQueryResponseInternalError(message=bad.message)
        result: RawQueryResponse = answer
        return result

    def execute_transform(
        self, request: TransformRequest, listener: EngineListener = QUIET
    ) -> TransformResponse:
        with mounts_beside(request.new_data_path) as mounts:
            prev = request.prev_checkpoint_path
            inner = replace(
                request,
                query_inputs=tuple(mounts.shown_of(item) for item in request.query_inputs),
                prev_checkpoint_path=None if prev is None else mounts.shown(prev),
                new_checkpoint_path=f"{OUTPUTS}/checkpoint",
                new_data_path=f"{OUTPUTS}/data",
            )
            outputs = {"checkpoint": request.new_checkpoint_path, "data": request.new_data_path}
            try:
                answer = self._ask(mounts, listener, lambda e: e.execute_transform(inner, listener))
                self._give(mounts, outputs)
            except EngineNotStarted as bad:
                return TransformResponseInternalError(message=bad.message)
        result: TransformResponse = answer
        return result

    def _ask(
        self, mounts: Mounts, listener: EngineListener, ask: Callable[[RemoteEngine], Any]
    ) -> Any:
        runtime = self._runtime(listener, mounts.base)
        image = self._pin(runtime, listener)
        with self._running(runtime, image, mounts, listener) as (container, address):
            answer = ask(RemoteEngine(self.name, address, seconds=self._seconds))
            if isinstance(answer, _INTERNAL) and (end := self._end(runtime, container)):
                return replace(answer, message=f"{end} ({answer.message})")
            return answer

    def _give(self, mounts: Mounts, outputs: dict[str, str]) -> None:
        try:
            for name, target in outputs.items():
                mounts.give(name, target)
        except PermissionError:
            raise EngineNotStarted(
                f"the engine {self.name} wrote files that only its own user can read: its image "
                "has to make them readable, or an option `--user` of the node's containers"
            ) from None

    def _runtime(self, listener: EngineListener, folder: Path | None = None) -> Runtime:
        """Return the container runtime. Raise `EngineNotStarted` if there is none."""
        rules = self._rules.containers
        if rules.runtime is None:
            raise EngineNotStarted(
                f"the engine {self.name} is a container image, and this node runs none: its "
                "administrator can name a runtime (podman, docker)"
            )
        if (command := rules.command()) is None:
            raise EngineNotStarted(
                f"the engine {self.name} is a container image, and the runtime {rules.runtime} "
                "is not installed"
            )
        return Runtime(rules, command, listener.progress, folder)

    def _pin(self, runtime: Runtime, listener: EngineListener) -> str:
        """Pull the image unless it is on this machine, and return its pinned name, which later
        queries use. Raise `EngineNotStarted`."""
        wanted = self._pinned or self._image
        listener.progress()
        found = runtime.ask("image", "inspect", wanted)
        if not found.ok:
            pulled = runtime.ask("pull", "--quiet", wanted, seconds=self._rules.pull_seconds)
            found = runtime.ask("image", "inspect", wanted) if pulled.ok else pulled
        if not found.ok:
            raise self._failed(found.text)
        if self._pinned is None:
            self._pinned = pinned(self._image, json.loads(found.text)[0])
        return self._pinned

    @contextmanager
    def _running(
        self, runtime: Runtime, image: str, mounts: Mounts, listener: EngineListener
    ) -> Iterator[tuple[str, str]]:
        """Yield the name of a container and the address of its engine. Raise `EngineNotStarted`."""
        label = re.sub(r"[^A-Za-z0-9_.-]", "-", self.name)
        name = f"odf-engine-{label}-{secrets.token_hex(8)}"
        try:
            started = runtime.ask(
                "run", "--detach", f"--name={name}", *self._options(mounts), image
            )
            if not started.ok:
                raise self._failed(started.text)
            yield name, self._answering(runtime, name, listener)
        finally:
            # Not by `runtime`, whose `alive` callback could raise again that the job is lost.
            Runtime(self._rules.containers, runtime.command).remove(name)

    def _options(self, mounts: Mounts) -> list[str]:
        network = self._rules.network
        return [
            f"--publish=127.0.0.1::{IMAGE_PORT}",
            *([f"--network={network}"] if network is not None else []),
            *mounts.options(),
            *self._rules.containers.confined(mounts.base, pids=MAX_PIDS),
        ]

    def _answering(self, runtime: Runtime, name: str, listener: EngineListener) -> str:
        """Return the address of the engine once it accepts calls. Raise `EngineNotStarted`."""
        deadline = time.monotonic() + self._rules.start_seconds
        address = None
        while time.monotonic() < deadline:
            listener.progress()
            if end := self._end(runtime, name):
                raise EngineNotStarted(end)
            address = address or _address(runtime, name)
            if address is None:
                time.sleep(_LOOK_SECONDS)
            elif _answers(address):
                return address
        where = "has no port that can be reached" if address is None else "did not answer"
        words = _quoted(runtime.last_words(name))
        raise EngineNotStarted(
            f"the engine {self.name} {where} within {self._rules.start_seconds:g} seconds{words}"
        )

    def _end(self, runtime: Runtime, name: str) -> str | None:
        """Return how the container ended, or None if it is running."""
        state = runtime.state(name)
        if state is not None and state.running:
            return None
        if state is None:
            return f"the container of the engine {self.name} was removed"
        memory = f"memory than the {self._rules.containers.memory} a container has here"
        if state.out_of_memory:
            return f"the engine {self.name} needed more {memory}"
        if state.exit_code == KILLED:  # not every runtime reports the cause
            return (
                f"the container of the engine {self.name} was killed: by somebody, or for "
                f"needing more {memory}"
            )
        return (
            f"the container of the engine {self.name} ended with exit code {state.exit_code}"
            f"{_quoted(runtime.last_words(name))}"
        )

    def _failed(self, said: str) -> EngineNotStarted:
        return EngineNotStarted(f"the engine {self.name} was not started: {said}")


def pinned(image: str, inspected: dict[str, Any]) -> str:
    """Return an immutable name of an image: with a digest, or its id if it was built here."""
    if "@" in image or image.startswith("sha256:"):
        return image
    digests: list[str] = inspected.get("RepoDigests") or []
    repository = re.sub(r":[^/:]*$", "", image)
    for digest in digests:
        if digest.partition("@")[0].endswith(repository):
            return digest
    identity = str(inspected["Id"])
    return digests[0] if digests else f"sha256:{identity.removeprefix('sha256:')}"


def _address(runtime: Runtime, name: str) -> str | None:
    """Return the engine's address: a published port of this machine, else the container's own
    address in a network that publishes no ports."""
    port = runtime.ask("port", name, f"{IMAGE_PORT}/tcp")
    if port.ok and port.text:
        return f"127.0.0.1:{port.text.split()[0].rpartition(':')[2]}"
    networks = runtime.ask(
        "container", "inspect", "--format", "{{json .NetworkSettings.Networks}}", name
    )
    for network in (json.loads(networks.text) or {}).values() if networks.ok else ():
        if host := network.get("IPAddress"):
            return f"{host}:{IMAGE_PORT}"
    return None


def _answers(address: str) -> bool:
    with grpc.insecure_channel(address, options=_CONNECTING) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_LOOK_SECONDS)
        except grpc.FutureTimeoutError:
            return False
    return True


def _quoted(words: str) -> str:
    return f"; it said: {words}" if words else ""
