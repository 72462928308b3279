"""Addresses of sources: what `runtime/networks.py` lets a node reach, in the words of a fetch."""

from __future__ import annotations

from odf_node.storage.runtime.networks import HostRefused, reachable

from .values import FetchRules, SourceRefused, SourceUnreachable


def allowed_addresses(host: str, port: int, rules: FetchRules) -> list[str]:
    """Addresses to connect to, in the order of the resolver.

    Raises:
        SourceUnreachable: the name has no address.
        SourceRefused: one of its addresses may not be fetched from.
    """
    try:
        return reachable(host, port, rules.networks, rules.resolve)
    except (OSError, UnicodeError, ValueError) as bad:
        raise SourceUnreachable(f"the host {host!r} has no address ({bad})", host=host) from None
    except HostRefused as refused:
        raise SourceRefused(
            refused.message, host=host, setting="ODF_WORKER_FETCH_NETWORKS"
        ) from None
