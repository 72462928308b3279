"""Which addresses a node may connect to because a user told it to: public ones, and ranges
its administrator allows. Names have to be resolved before, so that what was checked is what
is connected to."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address
_NAT64 = IPv6Network("64:ff9b::/96")


def may_be_reached(address: Address, networks: Iterable[str]) -> bool:
    """Whether the address is on the public network, or in one of `networks`."""
    plain = unwrapped(address)
    ranges = [ip_network(network) for network in networks]
    if any(plain in each for each in ranges if each.version == plain.version):
        return True
    return plain.is_global and not plain.is_multicast


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one, where there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    return inner or address
