"""Check addresses of sources with `runtime/networks.py`, and raise the errors of a fetch."""

from __future__ import annotations

from odf_storage.runtime.networks import HostRefused, reachable

from .values import FetchRules, SourceRefused, SourceUnreachable


def allowed_addresses(host: str, port: int, rules: FetchRules) -> list[str]:
    """Return the addresses to connect to, in the order of the resolver.

    Raises:
        SourceUnreachable: the name has no address.
        SourceRefused: fetching from one of its addresses is not allowed.
    """
    try:
        return reachable(host, port, rules.networks, rules.resolve)
    except (OSError, UnicodeError, ValueError) as bad:
        raise SourceUnreachable(f"the host {host!r} has no address ({bad})", host=host) from None
    except HostRefused as refused:
        raise SourceRefused(
            refused.message, host=host, setting="ODF_WORKER_FETCH_NETWORKS"
        ) from None
