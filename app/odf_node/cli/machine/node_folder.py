"""The stores of a node on this machine, as commands open them, and what they record there.

A folder is checked first, so that a mistyped one does not become a new node.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odf_protocol.errors import NotFound
from odf_storage.stores.ports.accounts import AuditEntry

from ..shell.output import json_option

if TYPE_CHECKING:
    from odf_storage.datasets.node.stores import Stores

    from ...service.settings import Settings

DATASETS = "datasets"


def expect_node(settings: Settings) -> None:
    """Raise `NoNodeHere` unless the node has a database."""
    if _has_database(settings):
        return
    there = f"there is no node in {settings.data}; name its folder with --data"
    if (settings.data / DATASETS).is_dir():
        there += ", or make a database from the datasets there with `odf-node index rebuild`"
    raise NotFound("NoNodeHere", there, data=str(settings.data))


def expect_objects(settings: Settings) -> None:
    """Raise `NoNodeHere` unless the node has an object store, a folder of datasets or a database.

    For commands that need no database yet.
    """
    if settings.objects_url is None and not (settings.data / DATASETS).is_dir():
        expect_node(settings)


def tell_of_new_node(settings: Settings) -> None:
    """Print a note if the command makes a new node.

    For commands that may run before the first start: without the note, users of a mistyped folder
    would wonder why the node does not know their token.
    """
    if not _has_database(settings):
        click.echo(
            f"note: there was no node in {settings.data}; this makes one (--data names the folder "
            "of another)",
            err=True,
        )


def any_folder(_: Settings) -> None:
    """Accept any folder. For commands that make a node on purpose."""


def _has_database(settings: Settings) -> bool:
    from odf_storage.datasets.node.open_stores import DATABASE_FILE

    return settings.database_url is not None or (settings.data / DATABASE_FILE).exists()


_DATA = click.option("--data", type=click.Path(path_type=Path), help="The node's data folder.")
_DATABASE = click.option("--database-url", help="The node's database, if not in the data folder.")
_OBJECTS = click.option("--objects-url", help="The node's object store, if not the data folder.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of all commands that open the node's database."""
    return _DATA(_DATABASE(_JSON(command)))


def all_store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add those of all commands that open the node's objects, too."""
    return _DATA(_DATABASE(_OBJECTS(json_option(command))))


@contextmanager
def node_stores(
    data: Path | None, database_url: str | None, *, may_be_new: bool = False
) -> Iterator[tuple[Any, Any]]:
    """Open the node's stores, and yield them with the node's settings.

    Raises:
        NoNodeHere: the folder has no node, and `may_be_new` does not allow a new one.
    """
    from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

    from ...service.settings import load_settings

    settings = load_settings(data=data, database_url=database_url)
    (tell_of_new_node if may_be_new else expect_node)(settings)
    opened = open_stores(
        StoreSettings(data=settings.data, database_url=settings.database_url), repair=False
    )
    try:
        yield opened, settings
    finally:
        opened.close()


@contextmanager
def opened_stores(
    where: dict[str, Any], *, expected: Callable[[Settings], None] = expect_node, **more: Any
) -> Iterator[tuple[Any, Path]]:
    """Open the node's stores, and yield them with its data folder.

    Raises:
        NoNodeHere: the folder is not what is `expected`.
    """
    from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

    from ...service.settings import load_settings

    settings = load_settings(**where)
    expected(settings)
    opened = open_stores(StoreSettings.of(settings), repair=False, **more)
    try:
        yield opened, settings.data
    finally:
        opened.close()


def record_command(stores: Stores, action: str, **facts: Any) -> None:
    """Record in the audit log what a command did to the node. `facts` must contain no secrets."""
    stores.audit.record(
        [
            AuditEntry(
                at=stores.clock(),
                actor=f"local:{_user()}",
                action=action,
                subject=" ".join(["odf-node", *sys.argv[1:3]]),
                outcome="done",
                facts={key: value for key, value in facts.items() if value is not None},
            )
        ]
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for its user
        return "unknown"
