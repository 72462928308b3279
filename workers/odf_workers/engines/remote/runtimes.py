"""Call a container runtime of the machine, podman or docker, by its commands.

The node runs engines and sources in images with it. Each container has a label with the folder in
which it works, so that the node can find and remove the containers of a killed worker.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...runtime.command import LOGGER, line

LABEL = "odf.node.folder"
COMMAND_SECONDS = 60.0
ALIVE_SECONDS = 1.0
"""Seconds between two calls of the `alive` callback while a command runs."""
SAID_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRules:
    """The runtime (`podman`, `docker` or a path; None runs no images), and the settings of every
    container: its memory, and more options of `run`."""

    runtime: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: str = "1g"
    options: Sequence[str] = ()

    def command(self) -> str | None:
        """Return the path of the runtime; None if it is not installed."""
        return shutil.which(self.runtime or "", path=self.environment.get("PATH"))

    def confined(self, folder: Path, *, pids: int) -> list[str]:
        """Return options of `run` that remove privileges and limit resources. The administrator's
        options are last, so they override these."""
        return [
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            f"--pids-limit={pids}",
            f"--memory={self.memory}",
            f"--label={LABEL}={folder.absolute()}",
            *self.options,
        ]


def mounted(outside: Path, inside: str, *, writable: bool = False) -> str:
    """Return the option of `run` that mounts a folder. Unlike `--volume`, it fails if the runtime
    does not see the folder."""
    access = "" if writable else ",readonly"
    return f"--mount=type=bind,source={outside.absolute()},target={inside}{access}"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The standard output of a command, or its error output if it failed."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """State of a container."""

    running: bool
    exit_code: int
    out_of_memory: bool


class Runtime:
    """Runs commands of the runtime, in the syntax that podman and docker share."""

    def __init__(
        self,
        rules: ContainerRules,
        command: str,
        alive: Callable[[], None] = lambda: None,
        folder: Path | None = None,
    ) -> None:
        """`alive` is called while a command runs; an error that it raises ends the command.

        Commands run in `folder`, because Podman's monitor writes files such as `oom` there.
        """
        self.command, self._environment, self._alive = command, dict(rules.environment), alive
        self._folder = folder

    def ask(self, *arguments: str, seconds: float = COMMAND_SECONDS) -> CommandOutput:
        try:
            process = subprocess.Popen(
                [self.command, *arguments],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except (OSError, ValueError) as bad:
            return CommandOutput(False, str(bad))
        with process:
            try:
                return self._heard(process, arguments[0], time.monotonic() + seconds)
            except BaseException:
                _kill(process)
                raise

    def _heard(self, process: subprocess.Popen[str], verb: str, deadline: float) -> CommandOutput:
        while True:
            left = deadline - time.monotonic()
            try:
                out, complaint = process.communicate(timeout=max(0.0, min(left, ALIVE_SECONDS)))
            except subprocess.TimeoutExpired:
                if left <= 0:
                    _kill(process)
                    return CommandOutput(False, f"`{verb}` of the container runtime did not end")
                self._alive()
                continue
            ok = process.returncode == 0
            return CommandOutput(ok, out.strip() if ok else complaint.strip()[:SAID_CHARS])

    def state(self, name: str) -> RuntimeState | None:
        """Return the state of a container; None if there is no such container."""
        said = self.ask("container", "inspect", "--format", "{{json .State}}", name)
        if not said.ok:
            return None
        state = json.loads(said.text)
        return RuntimeState(
            running=state.get("Running") is True,
            exit_code=state.get("ExitCode", 0),
            out_of_memory=state.get("OOMKilled") is True,
        )

    def last_words(self, name: str) -> str:
        """Return the last lines of a container's standard and error output."""
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [self.command, "logs", "--tail=20", name],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=COMMAND_SECONDS,
                check=False,
            )
            return done.stdout.decode("utf-8", "replace").strip()[-SAID_CHARS:]
        return ""

    def remove(self, name: str) -> None:
        """Kill and remove a container, without time to shut down."""
        self.ask("kill", name)  # `rm` alone would wait for a graceful end with some runtimes
        said = self.ask("rm", "--force", name)
        if not said.ok and self.state(name) is not None:
            LOGGER.warning(line("container stays behind", container=name, message=said.text))

    def folders(self) -> dict[str, Path]:
        """Return the containers that workers started, with the folder of each."""
        listed = self.ask("ps", "--all", "--quiet", f"--filter=label={LABEL}")
        if not listed.ok:
            LOGGER.warning(line("containers cannot be listed", message=listed.text))
            return {}
        found = {}
        for name in listed.text.split():
            said = self.ask("container", "inspect", "--format", "{{json .Config.Labels}}", name)
            if said.ok and (folder := json.loads(said.text).get(LABEL)):
                found[name] = Path(folder)
        return found


def remove_left_behind(rules: ContainerRules, is_left: Callable[[Path], bool]) -> None:
    """Remove the containers whose folder no worker uses any more, according to `is_left`."""
    if (command := rules.command()) is None:
        return
    runtime = Runtime(rules, command)
    for name, folder in runtime.folders().items():
        if is_left(folder):
            LOGGER.warning(line("container of a killed worker removed", container=name))
            runtime.remove(name)


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
