"""Checks that a data folder has a node, so that a mistyped folder does not become a new node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odf_protocol.errors import NotFound

if TYPE_CHECKING:
    from ..service.settings import Settings

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
        click.echo(f"note: there was no node in {settings.data}; this makes one", err=True)


def any_folder(_: Settings) -> None:
    """Accept any folder. For commands that make a node on purpose."""


def _has_database(settings: Settings) -> bool:
    from odf_storage.datasets.node.open_stores import DATABASE_FILE

    return settings.database_url is not None or (settings.data / DATABASE_FILE).exists()
