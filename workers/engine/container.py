"""An engine in a container image, run for one query and gone after it.

Inputs are mounted read-only under `in`, what it writes lies under `out`; nothing else of the
machine is seen. The engine answers at the port that images of ODF engines use.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from msgspec.structs import replace

from protocol.errors import BadInput
from protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    RawQueryResponseInternalError,
    TransformRequest,
    TransformRequestInput,
    TransformResponse,
    TransformResponseInternalError,
)

from .port import QUERY_SECONDS, QUIET, Listener
from .remote import RemoteEngine

IMAGE_PORT = 2884
INSIDE = "/opt/engine"
START_SECONDS = 30.0
STOP_SECONDS = 5
MAX_PIDS = 512
_COMMAND_SECONDS = 60.0
_PAUSE_SECONDS = 0.1
_SAID_CHARS = 1_000


class EngineNotStarted(BadInput):
    """The container of an engine could not be started, or did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRules:
    """What runs images: the runtime (`podman`, `docker`, a path), and with what."""

    runtime: str | None
    environment: Mapping[str, str]
    memory: str
    start_seconds: float = START_SECONDS


class ContainerEngine:
    """`Engine` in an image. The version is the name of the image; best one with a digest."""

    def __init__(
        self, name: str, image: str, rules: ContainerRules, *, seconds: float = QUERY_SECONDS
    ) -> None:
        self.name, self.version = name, image
        self._rules, self._seconds = rules, seconds

    def execute_raw_query(
        self, request: RawQueryRequest, listener: Listener = QUIET
    ) -> RawQueryResponse:
        with tempfile.TemporaryDirectory(dir=Path(request.output_data_path).parent) as name:
            folder = _Folder(Path(name))
            inner = replace(
                request,
                input_data_paths=tuple(folder.shown(path) for path in request.input_data_paths),
                output_data_path=f"{INSIDE}/out/data",
            )
            try:
                answer = self._ask(folder, lambda e: e.execute_raw_query(inner, listener))
            except EngineNotStarted as bad:
                return RawQueryResponseInternalError(message=bad.message)
            folder.give("data", request.output_data_path)
        result: RawQueryResponse = answer
        return result

    def execute_transform(
        self, request: TransformRequest, listener: Listener = QUIET
    ) -> TransformResponse:
        with tempfile.TemporaryDirectory(dir=Path(request.new_data_path).parent) as name:
            folder = _Folder(Path(name))
            prev = request.prev_checkpoint_path
            inner = replace(
                request,
                query_inputs=tuple(_shown(item, folder) for item in request.query_inputs),
                prev_checkpoint_path=None if prev is None else folder.shown(prev),
                new_checkpoint_path=f"{INSIDE}/out/checkpoint",
                new_data_path=f"{INSIDE}/out/data",
            )
            try:
                answer = self._ask(folder, lambda e: e.execute_transform(inner, listener))
            except EngineNotStarted as bad:
                return TransformResponseInternalError(message=bad.message)
            folder.give("checkpoint", request.new_checkpoint_path)
            folder.give("data", request.new_data_path)
        result: TransformResponse = answer
        return result

    def _ask(self, folder: _Folder, ask: Callable[[RemoteEngine], Any]) -> Any:
        with self._running(folder) as address:
            return ask(RemoteEngine(self.name, address, seconds=self._seconds))

    @contextlib.contextmanager
    def _running(self, folder: _Folder) -> Iterator[str]:
        """The address of the engine in its container. Raises `EngineNotStarted`."""
        runtime = self._runtime()
        name = f"odf-engine-{self.name}-{secrets.token_hex(8)}"
        deadline = time.monotonic() + self._rules.start_seconds
        try:
            self._said(runtime, "run", "--detach", "--rm", f"--name={name}", *self._options(folder))
            address = self._address(runtime, name, deadline)
            self._await(address, deadline)
            yield address
        finally:
            with contextlib.suppress(EngineNotStarted):
                # The long name of the flag differs between runtimes and their versions.
                self._said(runtime, "stop", "-t", str(STOP_SECONDS), name)
            with contextlib.suppress(EngineNotStarted):
                self._said(runtime, "rm", "--force", name)

    def _options(self, folder: _Folder) -> list[str]:
        return [
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            f"--pids-limit={MAX_PIDS}",
            f"--memory={self._rules.memory}",
            f"--publish=127.0.0.1::{IMAGE_PORT}",
            f"--volume={folder.inputs}:{INSIDE}/in:ro",
            f"--volume={folder.outputs}:{INSIDE}/out",
            self.version,
        ]

    def _runtime(self) -> str:
        wanted = self._rules.runtime
        if wanted is None:
            raise EngineNotStarted(
                f"the engine {self.name} is a container image, and this node runs none: its "
                "administrator can name a runtime (podman, docker)"
            )
        found = shutil.which(wanted, path=self._rules.environment.get("PATH"))
        if found is None:
            raise EngineNotStarted(
                f"the engine {self.name} is a container image, and the runtime {wanted} is not "
                "installed"
            )
        return found

    def _address(self, runtime: str, name: str, deadline: float) -> str:
        """Where the port of the container is on this machine."""
        while True:
            try:
                lines = self._said(runtime, "port", name, f"{IMAGE_PORT}/tcp").split()
            except EngineNotStarted:
                lines = []
            if lines:
                return f"127.0.0.1:{lines[0].rpartition(':')[2]}"
            if time.monotonic() >= deadline:
                raise self._late()
            time.sleep(_PAUSE_SECONDS)

    def _await(self, address: str, deadline: float) -> None:
        with grpc.insecure_channel(address) as channel:
            try:
                ready = grpc.channel_ready_future(channel)
                ready.result(timeout=max(0.0, deadline - time.monotonic()))
            except grpc.FutureTimeoutError:
                raise self._late() from None

    def _late(self) -> EngineNotStarted:
        return EngineNotStarted(
            f"the engine {self.name} did not answer within {self._rules.start_seconds:g} seconds"
        )

    def _said(self, *arguments: str) -> str:
        """What the runtime prints. Raises `EngineNotStarted`."""
        try:
            done = subprocess.run(
                arguments,
                env=dict(self._rules.environment),
                capture_output=True,
                text=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as bad:
            raise EngineNotStarted(f"the engine {self.name} was not started: {bad}") from None
        if done.returncode != 0:
            said = done.stderr.strip()[:_SAID_CHARS]
            raise EngineNotStarted(f"the engine {self.name} was not started: {said}")
        return done.stdout


class _Folder:
    """What the container sees of the machine."""

    def __init__(self, base: Path) -> None:
        self.inputs, self.outputs = base / "in", base / "out"
        base.chmod(0o755)
        self.inputs.mkdir()
        self.outputs.mkdir()
        self.outputs.chmod(0o777)  # whoever the image runs as
        self._count = 0

    def shown(self, path: str) -> str:
        """The name inside of a file that the engine may read."""
        name = f"{self._count}{Path(path).suffix}"
        self._count += 1
        try:
            os.link(path, self.inputs / name)
        except OSError:  # another file system, or one without links
            shutil.copyfile(path, self.inputs / name)
        return f"{INSIDE}/in/{name}"

    def give(self, name: str, target: str) -> None:
        """Put a file the engine wrote where it was asked for; links it made are not followed."""
        made = self.outputs / name
        if made.is_file() and not made.is_symlink():
            shutil.copyfile(made, target)


def _shown(item: TransformRequestInput, folder: _Folder) -> TransformRequestInput:
    return replace(
        item,
        data_paths=tuple(folder.shown(path) for path in item.data_paths),
        schema_file=folder.shown(item.schema_file),
    )
