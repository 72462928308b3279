"""`odf-node ingest`: post a file of records to a push source.

`odf-node retract`: take rows of a dataset back.

Small requests about one dataset, and the output of commands for their responses.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any

import click

from odf_protocol.commitments import MAX_KEY_BYTES, signing_key
from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ...client.nodes.http import TransferFailed, may_pass, open_http
from ...client.nodes.limits import MOST_TAKEN_BACK, one_line
from ...client.nodes.node_api import NodeApi
from ...client.nodes.remotes import Location
from ...client.transfer.folder import FILE_TYPES, Sendable, sendable
from ..shell.asking import (
    Step,
    dataset_base,
    job_progress,
    receipt_text,
)
from ..shell.files import INPUT, STDIN, opened_file
from ..shell.output import json_option, print_json, stepwise
from ..shell.tokens import token_option

PACKED = (".gz", ".zip", ".bz2", ".zst")


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("url", metavar="DATASET")
@click.option("--source-name", metavar="N", help="Push source; needed when there are several.")
@click.option(
    "--changelog",
    is_flag=True,
    help="FILE corrects rows: it has the columns of DATASET, and `op` says 1 for a row that it "
    "takes back, 0 for one that it adds.",
)
@click.option(
    "--add-columns",
    is_flag=True,
    help="Add the columns of FILE that DATASET lacks to its schema; earlier rows have no value.",
)
@click.option("--media-type", metavar="T", help="Format of FILE; default: by its extension.")
@click.option(
    "--event-time", metavar="T", help="Event time (RFC 3339) of rows that have none; default: now."
)
@click.option("--expected-head", metavar="H", help="Refuse if the head of the dataset is another.")
@click.option("--dry-run", is_flag=True, help="Show what would become of it; commit nothing.")
@click.option(
    "--on-bad-rows",
    type=click.Choice(["fail", "quarantine"]),
    help="Refuse FILE for a bad row (default), or ingest the others and keep the bad ones apart.",
)
@click.option(
    "--max-bad-rows", type=click.IntRange(1), metavar="N", help="With quarantine: so many at most."
)
@click.option("--key", metavar="K", help="Name of this request; the same again changes nothing.")
@click.option(
    "--repeat-for",
    "repeat_s",
    type=click.FloatRange(0, 86_400),
    metavar="SECONDS",
    help="How long to send again after 502, 503, 504 or a broken connection; default: 300.",
)
@click.option(
    "--sign",
    type=INPUT,
    metavar="KEYFILE",
    help="Sign FILE with this key of Ed25519 (PEM, or of ssh-keygen without a password).",
)
@click.option("--async", "no_wait", is_flag=True, help="Do not wait: print where to look.")
@token_option
@json_option
def ingest(
    file: str,
    url: str,
    *,
    media_type: str | None,
    event_time: str | None,
    no_wait: bool,
    key: str | None,
    token: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Post the records of FILE (`-` is standard input) to DATASET.

    Prints the receipt: how many rows were read, added and already known, and the new head.
    When the connection breaks, or a proxy answers 502, 503 or 504, the command sends FILE again
    under the same key, so that no row is added twice, and waits for the job.
    """
    if event_time is not None:
        event_time = str(Instant.parse(event_time))
    media_type = media_type or media_type_of(file)
    with open_http() as http, stepwise(quiet=as_json) as step:
        api = NodeApi(dataset_base(url), token, http=http)
        given = {"media_type": media_type, "event_time": event_time, **asked}
        receipt = post_file(api, file, step, key=key, quiet=as_json, wait=not no_wait, **given)
    if as_json:
        print_json(receipt)
    elif no_wait:
        click.echo(f"job {receipt.get('job')}\n{receipt.get('url')}")
    else:
        click.echo(receipt_text(receipt))


def post_file(
    api: NodeApi,
    file: str,
    step: Step | None,
    *,
    key: str | None = None,
    quiet: bool = False,
    sign: Path | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """Post a file (`-` is standard input) and return the receipt. Send it again, under the same
    key, while the connection breaks or a server before the node has no patience; tell a person of
    it unless `quiet`. `sign` is the file of the key that signs it."""
    key = key or str(uuid.uuid4())

    def told(error: NodeError, pause: float) -> None:
        click.echo(f"{one_line(error.message, 1000)}; again in {pause:.1f} s", err=True)

    with opened_file(file) as stream, sendable(stream) as content:
        if sign is not None:
            asked["signature"] = signature_of(sign, api, content)

        def sent() -> Iterator[bytes]:
            chunks = content.chunks()
            return chunks if step is None else _counted(chunks, content.size, step)

        try:
            return api.ingest(
                sent,
                size=content.size,
                key=key,
                seen=job_progress(step),
                told=None if quiet else told,
                **asked,
            )
        except NodeError as error:
            if may_pass(error) or _is_in_doubt(error):
                error.facts["idempotency_key"] = key
                if not quiet:
                    click.echo(f"with --key {key} nothing is added twice", err=True)
            raise


def _is_in_doubt(error: NodeError) -> bool:
    """Whether something else than a node answered, perhaps after the node had taken the rows."""
    return isinstance(error, TransferFailed) and error.facts.get("reported") is None


def signature_of(keyfile: Path, api: NodeApi, content: Sendable) -> str:
    """Sign what will be sent to the dataset at `api`.

    Raises:
        UnusableSigningKey: the file has no key of Ed25519, or one that takes a password.
    """
    from odf_protocol.trust.posts import PostSignature

    with keyfile.open("rb") as stream:
        key = signing_key(stream.read(MAX_KEY_BYTES))
    dataset = DatasetId.parse(str(api.dataset().get("id")))
    return str(PostSignature.sign(key, dataset, Multihash.of_chunks(content.chunks())))


def _counted(chunks: Iterable[bytes], size: int | None, step: Step) -> Iterator[bytes]:
    """Yield the chunks, and report to `step` how many bytes were sent."""
    sent = 0
    for chunk in chunks:
        yield chunk
        sent += len(chunk)
        step("sent", sent, size or 0)


def media_type_of(file: str) -> str | None:
    """Return the media type of a file by its extension.

    For standard input return None; the node then uses the format of the source.

    Raises:
        click.UsageError: the extension is unknown.
    """
    if file == STDIN:
        return None
    path = PurePath(file)
    packed = path.suffix.lower() in PACKED and path.stem  # nodes unpack the files they read
    suffix = PurePath(packed or path).suffix.lower()
    if suffix not in FILE_TYPES:
        known = " ".join(FILE_TYPES)
        raise click.UsageError(
            f"cannot tell the format of {file} (known: {known}); pass --media-type"
        )
    return FILE_TYPES[suffix]


SHOWN_ROWS = 20


@click.command()
@click.argument("url", metavar="DATASET")
@click.option(
    "--key",
    "key",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Rows with this value; several: rows with all of them.",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    type=click.IntRange(0),
    metavar="N",
    help="Rows by offset.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="COLUMN:OP:VALUE",
    help="Rows of which this is true, as in `odf-node read`.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=MOST_TAKEN_BACK,
    show_default=True,
    metavar="N",
    help="Refuse if more rows fit.",
)
@click.option("--dry-run", is_flag=True, help="Show the rows and the receipt; commit nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@json_option
def retract(
    url: str,
    *,
    key: tuple[str, ...],
    offsets: tuple[int, ...],
    filters: tuple[str, ...],
    max_rows: int,
    dry_run: bool,
    yes: bool,
    token: str | None,
    as_json: bool,
) -> None:
    """Take current rows of DATASET back: show them, ask, then retract them.

    The rows stay in the history, with the retractions after them; readers get the current rows. No
    source of DATASET has to take retractions. A snapshot, or a row that is posted again, brings
    them back.
    """
    from ...public.following import StreamPlace
    from ...public.publish import standing

    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run")
    pairs = [each.partition("=") for each in key]
    if not all(name and sign for name, sign, _ in pairs):
        raise click.UsageError("name a column and its value: --key COLUMN=VALUE")
    base = dataset_base(url)
    found = standing(
        StreamPlace(Location.parse(base), token),
        filters=[*filters, *(f"{name}:eq:{value}" for name, _, value in pairs)],
        offsets=offsets,
        most=max_rows,
    )
    rows = found.values.to_pylist()
    if not as_json:
        _show(rows)
    if not (yes or dry_run):
        count = "this row" if len(rows) == 1 else f"these {len(rows)} rows"
        click.confirm(f"Take back {count} of {one_line(base)}?", abort=True, err=True)
    receipt = found.take_back(dry_run=dry_run)
    if as_json:
        print_json({"rows": json.loads(json.dumps(rows, default=str)), "receipt": receipt})
    else:
        click.echo(receipt_text(receipt))


def _show(rows: list[dict[str, Any]]) -> None:
    for row in rows[:SHOWN_ROWS]:
        click.echo(json.dumps(row, ensure_ascii=False, default=str))
    if len(rows) > SHOWN_ROWS:
        click.echo(f"… and {len(rows) - SHOWN_ROWS} more")
