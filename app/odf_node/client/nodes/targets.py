"""Resolve what a user types into a location; all commands and the Python API name datasets so.

    odf+http://…  http://…  s3://…  ./folder    as it is
    name  account/name  did:odf:…               that dataset of the node that `--node` names; else,
                                                if no such folder exists, of that at `ODF_NODE_URL`
    repo                                        push: under the node's name for it, else the
    folder's
    repo/name  repo/account/name  repo/did:…    that dataset of the repository
    nothing                                     push: to the last target, else the only repository

If the first segment is the name of a repository, it means the repository; a folder of the same name
is `./name`. If a node has several accounts and the text names none, the client requests the
caller's account from the node. `tokens` returns the token for an address; the default is the stored
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from odf_protocol.errors import BadInput, NodeError, NotFound, Refused
from odf_protocol.identity import DatasetId, MalformedName, Name

from .home import home_node
from .http import open_http
from .limits import LIMITS, ClientLimits
from .node_api import NodeApi, NothingThere, RequestRefused
from .remotes import Location, NamedRepository, Repositories, Transfer, node_base, remotes_of

DID = "did:odf:"
MOST_PARTS = 2
"""Parts of a dataset's name on a node: account and name."""


TokenAt = Callable[[str, NamedRepository | None], str | None]
"""Returns the token for an address, if there is one, and if a repository names it, by that one."""


@dataclass(frozen=True, slots=True)
class Address:
    """A location and its token."""

    location: Location
    token: str | None = field(default=None, repr=False)


def read_address(
    text: str,
    repositories: Repositories,
    *,
    node: str | None = None,
    is_on_node: bool = False,
    tokens: TokenAt | None = None,
    limits: ClientLimits = LIMITS,
) -> Address:
    """Return the dataset that the text names.

    `node` is the URL or repository of the node that has it. With `is_on_node` a path of a folder
    is a name, too, and every repository is a node.

    Raises:
        UnsupportedUrl, NotADataset, NothingThere, TransferFailed
    """
    tokens = tokens or repositories.token_at
    if node is not None:
        if "://" in text or (path := _path(text)) is None:
            raise BadInput(
                "NotADataset", f"{text} is no name of a dataset of {node}; a URL needs no --node"
            )
        return address_at(node_at(node, repositories), path, tokens, is_node=True, limits=limits)
    found = named(text, repositories)
    if found is None:
        home, path = home_node(), _path(text)
        is_here = not is_on_node and Path(text).exists()
        if home is None or path is None or is_here:
            return _as_it_is(text, tokens)
        return address_at(node_at(home, repositories), path, tokens, is_node=True, limits=limits)
    repository, path = found
    if not path:
        raise BadInput("NotADataset", f"{text} is a repository; name a dataset of it: {text}/name")
    return address_at(repository, path, tokens, is_node=is_on_node, limits=limits)


def node_at(text: str, repositories: Repositories) -> NamedRepository:
    """Return a node, given as its URL or as the name of a repository.

    Raises:
        UnsupportedUrl, NotADataset
    """
    found = named(text, repositories)
    if found is None:
        base = node_base(text)
        return NamedRepository(url=base, token=repositories.token_of_repository(base))
    repository, path = found
    if path:
        raise BadInput("NotADataset", f"{text} is a dataset; name the node alone")
    return repository


def write_address(
    text: str | None,
    folder: Path,
    dataset: Callable[[], DatasetId],
    repositories: Repositories,
    *,
    tokens: TokenAt | None = None,
    limits: ClientLimits = LIMITS,
) -> Address:
    """Return the target of a push of the dataset in `folder`.

    Raises:
        UnsupportedUrl, AmbiguousTarget, NoTarget, TransferFailed
    """
    tokens = tokens or repositories.token_at
    if text is None and (noted := remotes_of(folder).push) is not None:
        return _as_it_is(noted, tokens)
    text = text or _only(repositories)
    found = named(text, repositories)
    if found is None:
        return _as_it_is(text, tokens)
    repository, path = found
    token = tokens(repository.base, repository)
    if not path:
        known = _name_at(repository, token, dataset(), limits)
        path = [known or str(Name(folder.resolve().name))]
    return _smart(repository, _with_account(repository, token, path, limits), token)


def address_at(
    repository: NamedRepository,
    path: list[str],
    tokens: TokenAt,
    *,
    is_node: bool = False,
    limits: ClientLimits = LIMITS,
) -> Address:
    """Return a dataset of a repository for reading; `is_node`: the repository is a node, not a file
    server.

    Raises:
        NothingThere, TransferFailed
    """
    token = tokens(repository.base, repository)
    if path[0].startswith(DID):
        path = _path_of_id(repository, token, path[0], limits)
    if not (repository.is_smart or is_node):
        return Address(Location.parse(repository.base + _joined(path)), token)
    return _smart(repository, _with_account(repository, token, path, limits), token)


def _only(repositories: Repositories) -> str:
    names = list(repositories.all())
    if not names:
        raise BadInput(
            "NoTarget", "nothing says where to push to: name a URL, or add a repository (repo add)"
        )
    if len(names) > 1:
        known = ", ".join(names)
        raise BadInput(
            "AmbiguousTarget", f"there are several repositories ({known}); name one of them"
        )
    return names[0]


def named(text: str, repositories: Repositories) -> tuple[NamedRepository, list[str]] | None:
    """Return a repository and the path below it, if the text begins with the name of one."""
    if "://" in text or text.startswith((".", "/", "~")):
        return None
    first, *rest = text.rstrip("/").split("/")
    repository = repositories.find(first)
    if repository is None:
        return None
    if len(rest) > MOST_PARTS:
        raise BadInput(
            "NotADataset", f"{text} has too many parts: repository, account and name at most"
        )
    if rest and rest[0].startswith(DID):
        return repository, [str(DatasetId.parse(rest[0]))]
    return repository, [str(Name(part)) for part in rest]


def _path(text: str) -> list[str] | None:
    """Return the parts of a dataset's name, or its id; None if the text is neither."""
    if text.startswith(DID):
        return [str(DatasetId.parse(text))]
    parts = text.rstrip("/").split("/")
    try:
        return [str(Name(part)) for part in parts] if len(parts) <= MOST_PARTS else None
    except MalformedName:
        return None


def _path_of_id(
    repository: NamedRepository, token: str | None, dataset: str, limits: ClientLimits
) -> list[str]:
    """Return the path of a dataset below its node. Raises `NothingThere`."""
    found = _asked(repository, token, f"datasets/{dataset}", limits)
    name, owner = found.get("datasetName"), found.get("owner")
    account = owner.get("accountName") if isinstance(owner, dict) else None
    if not isinstance(name, str):
        raise NothingThere(f"{repository.base} has no {dataset}, or none that this account may see")
    is_multi = _asked(repository, token, "info", limits).get("isMultiTenant", False)
    accounts = [str(Name(account))] if is_multi and isinstance(account, str) else []
    return [*accounts, str(Name(name))]


def _as_it_is(text: str, tokens: TokenAt) -> Address:
    """Parse a URL or folder, and return it with the token for its origin."""
    location = Location.parse(text)
    is_served = location.transfer in (Transfer.SMART, Transfer.SIMPLE)
    return Address(location, tokens(location.base, None) if is_served else None)


def _smart(repository: NamedRepository, path: list[str], token: str | None) -> Address:
    return Address(Location.parse("odf+" + repository.base + _joined(path)), token)


def _joined(path: list[str]) -> str:
    return "/".join(quote(part) for part in path) + "/"


def _with_account(
    repository: NamedRepository, token: str | None, path: list[str], limits: ClientLimits
) -> list[str]:
    """Return the path below the node, with the account if the node has several."""
    if len(path) > 1:
        return path
    if not _asked(repository, token, "info", limits).get("isMultiTenant", False):
        return path
    me = _asked(repository, token, "accounts/me", limits)
    if not me:
        return path
    account = me.get("accountName")
    if not isinstance(account, str):
        raise RequestRefused("the node does not say which account this is")
    return [str(Name(account)), *path]


def _name_at(
    repository: NamedRepository, token: str | None, dataset: DatasetId, limits: ClientLimits
) -> str | None:
    """Return the node's name of the dataset, if the node has it."""
    found = _asked(repository, token, f"datasets/{dataset}", limits).get("datasetName")
    return str(Name(found)) if isinstance(found, str) else None


def _asked(
    repository: NamedRepository, token: str | None, path: str, limits: ClientLimits
) -> dict[str, object]:
    """Return the node's JSON response; empty if the node refuses the request or finds nothing."""
    with open_http(limits) as http:
        try:
            return NodeApi(repository.base, token, http=http, limits=limits).look(path)
        except NodeError as error:
            if isinstance(error, NotFound | Refused | BadInput):
                return {}
            raise
