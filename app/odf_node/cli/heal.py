"""`odf-node verify --heal`: choose sources and tokens, heal the folder, and report the files."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from ..client.folder import FolderRepository
from ..client.heal import heal_folder
from ..client.remotes import Repositories, remotes_of
from ..client.sync import opened
from ..client.targets import read_address
from ..client.text import one_line
from ..client.urls import Location
from .tokens import tokens_of

NODES_HEAL = "--heal is for a folder; a node heals what it has by itself"


def healed_at(where: str, token: str | None) -> list[dict[str, Any]]:
    """Fetch damaged and missing files of a folder from `Remotes.copies`, and report each of them.

    Raises:
        UsageError: `where` is no folder, or the command line names a token, which would be sent
            to every host.
        DatasetMissing, FolderBusy, TooMuch
    """
    folder = Location.parse(where).path
    if folder is None:
        raise click.UsageError(NODES_HEAL)
    given = click.get_current_context().get_parameter_source("token")
    if given is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "--heal may ask several hosts, and a token is for one: name it in a repository "
            "(odf-node repo add), or in ODF_NODE_TOKEN for the node at ODF_NODE_URL"
        )
    repositories = Repositories()
    tokens = tokens_of(token, repositories)
    copies = remotes_of(folder).copies
    sources = [read_address(text, repositories, tokens=tokens) for text in copies]
    openings = []
    for one in sources:
        name = str(one.location)
        openings.append((name, partial(opened, one.location, one.token)))
    files = heal_folder(FolderRepository(folder), openings)
    return [
        {"object": one.name, "healedFrom": one.source, "problems": list(one.problems)}
        for one in files
    ]


def healed_text(file: dict[str, Any]) -> str:
    """Return a line about a file for a person."""
    if file["healedFrom"] is not None:
        return f"healed: {file['object']} from {file['healedFrom']}"
    why = "; ".join(map(one_line, file["problems"])) or "no place is known to have the dataset"
    return f"not healed: {file['object']} ({why})"
