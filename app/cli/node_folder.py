"""Whether there is a node where a command was told to look: a mistyped folder is no new node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odf_node.protocol.errors import NotFound

if TYPE_CHECKING:
    from ..service.settings import Settings

DATASETS = "datasets"


class NoNodeHere(NotFound):
    """The folder has no database of a node, and none was named."""


def expect_node(settings: Settings) -> None:
    """Raises `NoNodeHere`."""
    if _has_database(settings):
        return
    there = f"there is no node in {settings.data}; name its folder with --data"
    if (settings.data / DATASETS).is_dir():
        there += ", or make a database from the datasets there with `odf-node index rebuild`"
    raise NoNodeHere(there, data=str(settings.data))


def expect_objects(settings: Settings) -> None:
    """For what needs no database yet. Raises `NoNodeHere`."""
    if settings.objects_url is None and not (settings.data / DATASETS).is_dir():
        expect_node(settings)


def tell_of_new_node(settings: Settings) -> None:
    """For what may come before the first start: nobody shall wonder why a token is unknown."""
    if not _has_database(settings):
        click.echo(f"note: there was no node in {settings.data}; this makes one", err=True)


def any_folder(_: Settings) -> None:
    """For what makes a node on purpose."""


def _has_database(settings: Settings) -> bool:
    from odf_node.storage.datasets.node.open_stores import DATABASE_FILE

    return settings.database_url is not None or (settings.data / DATABASE_FILE).exists()
