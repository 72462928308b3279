"""Sources that are container images: their data is the output of the image.

The image writes the new source state to files whose paths it receives. It runs without privileges,
in limited memory and time, but with a network in order to fetch; therefore no image runs unless the
administrator names a runtime.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from odf_protocol.errors import BadInput, RemoteFailed
from odf_protocol.instant import Instant, MalformedInstant
from odf_protocol.metadata.events import SourceState
from odf_protocol.metadata.sources import FetchStepContainer

from ..engines.remote.runtimes import Runtime, mounted
from ..runtime.command import Command, output_of
from .values import ETAG, LAST_MODIFIED, Deadline, Fetched, FetchRequest, expand, spooled, state

INSIDE = "/opt/odf/out"
BATCH_SIZE = "10000"
MAX_STATE_BYTES = 4_096
MAX_PIDS = 256
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,255}")
_FILES = {
    "ODF_NEW_ETAG_PATH": "new-etag",
    "ODF_NEW_LAST_MODIFIED_PATH": "new-last-modified",
    "ODF_NEW_HAS_MORE_DATA_PATH": "new-has-more-data",
}


def fetch_container(step: FetchStepContainer, request: FetchRequest) -> Fetched | None:
    """Return the output of the image, or None if it printed nothing and left the state unchanged.

    Raises:
        SourceRefused: this node does not run images.
        ContainerFailed, ContainerBrokeProtocol: the run failed.
        InvalidParameterFormat, MalformedSource, ValueNotFound: the definition is wrong.
    """
    runtime = _runtime(request)
    out = request.folder / "out"
    out.mkdir(mode=0o777)
    out.chmod(0o777)  # the image may run as any user
    environment = _environment(step, request)
    name = f"odf-fetch-{secrets.token_hex(8)}"
    arguments = _arguments(step, request, out, _written(environment, request.folder))
    command = Command(
        arguments=(runtime.command, "run", "--rm", f"--name={name}", *arguments),
        folder=request.folder,
        environment=request.rules.containers.environment,
        seconds=request.rules.total_s,
        failure=partial(RemoteFailed, "ContainerFailed"),
    )
    try:
        path = spooled(
            output_of(command), request.folder / "fetched", request.rules, Deadline(request.rules)
        )
    except BaseException:
        runtime.remove(name)  # the container outlives the runtime's client
        raise
    left_off = _new_state(out)
    if left_off is not None and left_off == request.state:
        if path.stat().st_size == 0:
            return None
        raise RemoteFailed(
            "ContainerBrokeProtocol", "the image printed data but left its state as it was"
        )
    return Fetched(
        path=path,
        state=left_off,
        event_time=request.system_time,
        has_more=(out / _FILES["ODF_NEW_HAS_MORE_DATA_PATH"]).is_file(),
    )


def _runtime(request: FetchRequest) -> Runtime:
    wanted = request.rules.containers.runtime
    if wanted is None:
        raise BadInput(
            "SourceRefused",
            "the source is a container image, and this node runs none: its administrator can "
            "name a runtime (podman, docker)",
            setting="ODF_WORKER_CONTAINER_RUNTIME",
        )
    command = request.rules.containers.command()
    if command is None:
        raise BadInput(
            "SourceRefused",
            f"the source is a container image, and the runtime {wanted} is not installed",
            runtime=wanted,
            setting="ODF_WORKER_CONTAINER_RUNTIME",
        )
    return Runtime(request.rules.containers, command)


def _arguments(
    step: FetchStepContainer, request: FetchRequest, out: Path, env_file: Path
) -> list[str]:
    variables = request.rules.variables
    image = expand(step.image, variables)
    if not _IMAGE.fullmatch(image):
        raise BadInput(
            "MalformedSource", f"{image[:100]!r} is no name of an image", image=image[:100]
        )
    command = [expand(word, variables) for word in step.command or ()]
    return [
        mounted(out, INSIDE, writable=True),
        f"--env-file={env_file}",
        *request.rules.containers.confined(request.folder, pids=MAX_PIDS),
        *([f"--entrypoint={command[0]}"] if command else []),
        image,
        *command[1:],
        *[expand(word, variables) for word in step.args or ()],
    ]


def _environment(step: FetchStepContainer, request: FetchRequest) -> dict[str, str]:
    """Return the variables of the image: the source's, then those of the protocol."""
    variables = request.rules.variables
    given = {}
    for entry in step.env or ():
        if entry.value is None and entry.name not in variables:
            raise BadInput(
                "ValueNotFound", f"the variable {entry.name!r} has no value", detail=entry.name
            )
        value = variables[entry.name] if entry.value is None else expand(entry.value, variables)
        given[entry.name] = value
    size = given.get("ODF_BATCH_SIZE", BATCH_SIZE)
    if not re.fullmatch(r"[0-9]{1,19}", size):
        raise BadInput(
            "InvalidParameterFormat",
            f"ODF_BATCH_SIZE is no unsigned number: {size[:100]!r}",
            given=size[:100],
        )
    return {
        **given,
        "ODF_BATCH_SIZE": size,
        "ODF_ETAG": request.state_of(ETAG) or "",
        "ODF_LAST_MODIFIED": request.state_of(LAST_MODIFIED) or "",
        **{name: f"{INSIDE}/{file}" for name, file in _FILES.items()},
    }


def _written(environment: Mapping[str, str], folder: Path) -> Path:
    """Write the variables to a file that only we can read: a command line is visible to all
    users."""
    for name, value in environment.items():
        if not _NAME.fullmatch(name) or "\n" in value or "\r" in value or "\0" in value:
            raise BadInput(
                "MalformedSource", f"the variable {name[:100]!r} cannot be given to an image"
            )
    path = folder / "environment"
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in environment.items()))
    return path


def _new_state(out: Path) -> SourceState | None:
    if (tag := _read(out / _FILES["ODF_NEW_ETAG_PATH"])) is not None:
        return state(ETAG, tag)
    if (modified := _read(out / _FILES["ODF_NEW_LAST_MODIFIED_PATH"])) is None:
        return None
    try:
        return state(LAST_MODIFIED, str(Instant.parse(modified)))
    except MalformedInstant as bad:
        raise RemoteFailed(
            "ContainerBrokeProtocol", f"the image left a time that is none: {bad}"
        ) from None


def _read(path: Path) -> str | None:
    """Read a small file that the image wrote, without following links."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_STATE_BYTES + 1)
    except PermissionError:
        raise RemoteFailed(
            "ContainerBrokeProtocol", "the image left a state only its own user can read"
        ) from None
    try:
        text = raw.decode().strip()
    except UnicodeDecodeError:
        raise RemoteFailed(
            "ContainerBrokeProtocol", "the image left a state that is no text"
        ) from None
    if len(raw) > MAX_STATE_BYTES:
        raise RemoteFailed(
            "ContainerBrokeProtocol", f"the image left a state above {MAX_STATE_BYTES} bytes"
        )
    return text or None
