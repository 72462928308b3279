"""The location of a dataset that a program names, and the token for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..client.home import token_for
from ..client.remotes import Repositories, Repository
from ..client.targets import read_address
from ..client.urls import Location


@dataclass(frozen=True, slots=True)
class Place:
    """A location, and the token to send there."""

    location: Location
    token: str | None

    def __repr__(self) -> str:
        return f"Place({self.location})"

    @property
    def is_served(self) -> bool:
        """Whether the location is read by HTTP, so that it may be a node that reads for us."""
        return bool(self.location.base)


def place_of(name: str | os.PathLike[str], token: str | None = None) -> Place:
    """Resolve a URL, a folder, or REPOSITORY/[ACCOUNT/]NAME.

    The token is the given one, else the repository's, else `ODF_NODE_TOKEN` if the location is on
    the node at `ODF_NODE_URL` (if that is not set, on this machine), else that of `odf-node login`.

    Raises:
        UnsupportedUrl, NotADataset, TransferFailed.
    """
    text = str(name) if isinstance(name, str) else str(Path(name))
    repositories = Repositories()

    def token_at(address: str, *, by: Repository | None = None) -> str | None:
        own = token or repositories.token_of_repository(address, by=by)
        return own or token_for(address) or repositories.token_of_login(address)

    address = read_address(text, repositories, tokens=token_at)
    return Place(address.location, address.token)
