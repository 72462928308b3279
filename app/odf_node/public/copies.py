"""Copies of datasets: pull them into a folder, push them to a node, verify them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from odf_storage.stores.ports.values import Visibility

from ..client import sync
from ..client.receive import Outcome
from ..client.urls import ODF, Location, Transfer
from .dataset import open_dataset
from .place import place_of

if TYPE_CHECKING:
    from odf_storage.datasets.job_payloads.verify_report import VerifyReport

__all__ = ["Outcome", "pull", "push", "verify"]


def pull(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    token: str | None = None,
    force: bool = False,
) -> Outcome:
    """Copy a dataset, or its new part, into a folder. Everything is checked by hash before it
    becomes visible there.

    `force` replaces a copy that has diverged. Raises the same errors as `odf-node pull`.
    """
    place = place_of(source, token)
    return sync.pull(
        place.location, Location.parse(str(Path(folder))), token=place.token, force=force
    )


def push(
    folder: str | os.PathLike[str],
    target: str,
    *,
    token: str | None = None,
    visibility: Literal["private", "public"] = "private",
    force: bool = False,
) -> Outcome:
    """Copy the dataset in a folder to a node, `http(s)://node/[account/]name`, or to a bucket.

    A dataset that does not exist there is created with the given visibility. `force` replaces a
    history that has diverged. Raises the same errors as `odf-node push`.
    """
    place = place_of(target, token)
    location = place.location
    if location.transfer is Transfer.SIMPLE:  # a node accepts writes only by the smart protocol
        location = Location.parse(ODF + str(location))
    return sync.push(
        Location.parse(str(Path(folder))),
        location,
        token=place.token,
        visibility=Visibility(visibility.capitalize()),
        force=force,
    )


def verify(
    where: str | os.PathLike[str], *, rows: bool = True, token: str | None = None
) -> VerifyReport:
    """Hash every block and slice of a dataset, and with `rows` also every row. See `report.ok`."""
    return open_dataset(where, token=token).verify(rows=rows)
