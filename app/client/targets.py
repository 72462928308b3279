"""From what a person types to a location: URLs, folders, and names of repositories.

    odf+http://…  http://…  s3://…  ./folder    as it is
    repo                                        push: by the node's name for it, or the folder's
    repo/name  repo/account/name                that dataset of the repository
    nothing                                     push: where it went before, else the only repository

A first segment that is a repository means it; a folder of the same name is `./name`.
The account is asked of the node where it has several, and none was named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from odf_node.protocol.errors import BadInput, NodeError, NotFound, Refused
from odf_node.protocol.identity import DatasetId, Name

from .http import open_http, origin
from .limits import LIMITS, ClientLimits
from .node_api import NodeApi, RequestRefused
from .remotes import Repositories, Repository, remotes_of
from .urls import Location, Transfer


class AmbiguousTarget(BadInput):
    """Several repositories, and nothing says which."""


class NoTarget(BadInput):
    """No repository, and nothing says where to."""


class NotADataset(BadInput):
    """A repository, where a dataset of it is needed."""


@dataclass(frozen=True, slots=True)
class Address:
    """A location, and the token known for it."""

    location: Location
    token: str | None = field(default=None, repr=False)
    is_named: bool = False
    """By the name of a repository."""


def read_address(
    text: str, repositories: Repositories, *, limits: ClientLimits = LIMITS
) -> Address:
    """Where to pull from.

    Raises:
        UnsupportedUrl, NotADataset, TransferFailed
    """
    found = _named(text, repositories)
    if found is None:
        return _as_it_is(text, repositories)
    repository, path = found
    if not path:
        raise NotADataset(f"{text} is a repository; name a dataset of it: {text}/name")
    if not repository.is_smart:
        return Address(
            Location.parse(repository.base + _joined(path)), repository.token, is_named=True
        )
    return _smart(repository, _with_account(repository, path, limits))


def write_address(
    text: str | None,
    folder: Path,
    dataset: Callable[[], DatasetId],
    repositories: Repositories,
    *,
    limits: ClientLimits = LIMITS,
) -> Address:
    """Where to push the dataset in `folder` to.

    Raises:
        UnsupportedUrl, AmbiguousTarget, NoTarget, TransferFailed
    """
    if text is None and (noted := remotes_of(folder).push) is not None:
        return _as_it_is(noted, repositories)
    text = text or _only(repositories)
    found = _named(text, repositories)
    if found is None:
        return _as_it_is(text, repositories)
    repository, path = found
    path = path or [_name_at(repository, dataset(), limits) or str(Name(folder.resolve().name))]
    return _smart(repository, _with_account(repository, path, limits))


def _only(repositories: Repositories) -> str:
    names = list(repositories.all())
    if not names:
        raise NoTarget("nothing says where to push to: name a URL, or add a repository (repo add)")
    if len(names) > 1:
        known = ", ".join(names)
        raise AmbiguousTarget(f"there are several repositories ({known}); name one of them")
    return names[0]


def _named(text: str, repositories: Repositories) -> tuple[Repository, list[str]] | None:
    """A repository and the path below it, if the text begins with the name of one."""
    if "://" in text or text.startswith((".", "/", "~")):
        return None
    first, *rest = text.rstrip("/").split("/")
    repository = repositories.find(first)
    if repository is None:
        return None
    if len(rest) > 2:
        raise NotADataset(f"{text} has too many parts: repository, account and name at most")
    return repository, [str(Name(part)) for part in rest]


def _as_it_is(text: str, repositories: Repositories) -> Address:
    """A URL or folder, and the token of the repository of the same origin."""
    location = Location.parse(text)
    if location.transfer not in (Transfer.SMART, Transfer.SIMPLE):
        return Address(location)
    same = (
        one.token
        for one in repositories.all().values()
        if origin(one.base) == origin(location.base)
    )
    return Address(location, next((token for token in same if token), None))


def _smart(repository: Repository, path: list[str]) -> Address:
    location = Location.parse("odf+" + repository.base + _joined(path))
    return Address(location, repository.token, is_named=True)


def _joined(path: list[str]) -> str:
    return "/".join(quote(part) for part in path) + "/"


def _with_account(repository: Repository, path: list[str], limits: ClientLimits) -> list[str]:
    """The path below the node: with an account where there are several."""
    if len(path) > 1:
        return path
    if not _asked(repository, "info", limits).get("isMultiTenant", False):
        return path
    me = _asked(repository, "accounts/me", limits)
    if not me:
        return path
    account = me.get("accountName")
    if not isinstance(account, str):
        raise RequestRefused("the node does not say which account this is")
    return [str(Name(account)), *path]


def _name_at(repository: Repository, dataset: DatasetId, limits: ClientLimits) -> str | None:
    """What the node calls the dataset, if it has it."""
    found = _asked(repository, f"datasets/{dataset}", limits).get("datasetName")
    return str(Name(found)) if isinstance(found, str) else None


def _asked(repository: Repository, path: str, limits: ClientLimits) -> dict[str, object]:
    """What the node says there; nothing for any status from 400 to 499."""
    with open_http(limits) as http:
        try:
            return NodeApi(repository.base, repository.token, http=http, limits=limits).look(path)
        except NodeError as error:
            if isinstance(error, NotFound | Refused | BadInput):
                return {}
            raise
