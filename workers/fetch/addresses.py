"""Which addresses sources may be fetched from: public ones, and ranges the node allows.

A name is resolved once, every address it has is checked, and the connection goes to the
address that was checked: a name that means something else a moment later gains nothing.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from .values import FetchRules, SourceRefused, SourceUnreachable

Address = IPv4Address | IPv6Address
_NAT64 = IPv6Network("64:ff9b::/96")


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
        if not _may_be_fetched_from(address, rules.networks):
            raise SourceRefused(
                f"the host {host!r} is not on the public network; the administrator of this "
                "node can allow its range",
                host=host,
            )
    return [str(address) for address in found]


def _may_be_fetched_from(address: Address, networks: tuple[str, ...]) -> bool:
    plain = _unwrapped(address)
    ranges = [ip_network(network) for network in networks]
    if any(plain in each for each in ranges if each.version == plain.version):
        return True
    return plain.is_global and not plain.is_multicast


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    return inner or address
