"""Which addresses sources may be fetched from: public ones, and ranges the node allows.

A name is resolved once, every address it has is checked, and the connection goes to the
address that was checked: a name that means something else a moment later gains nothing.
"""

from __future__ import annotations

from ipaddress import ip_address

from storage.networks import may_be_reached

from .values import FetchRules, SourceRefused, SourceUnreachable


def allowed_addresses(host: str, port: int, rules: FetchRules) -> list[str]:
    """Addresses to connect to, in the order of the resolver.

    Raises:
        SourceUnreachable: the name has no address.
        SourceRefused: one of its addresses may not be fetched from.
    """
    try:
        found = [ip_address(text) for text in rules.resolve(host, port)]
    except (OSError, UnicodeError, ValueError) as bad:
        raise SourceUnreachable(f"the host {host!r} has no address ({bad})", host=host) from None
    if not found:
        raise SourceUnreachable(f"the host {host!r} has no address", host=host)
    for address in found:
        if not may_be_reached(address, rules.networks):
            raise SourceRefused(
                f"the host {host!r} is not on the public network; the administrator of this "
                "node can allow its range",
                host=host,
                setting="ODF_NODE_FETCH_NETWORKS",
            )
    return [str(address) for address in found]
