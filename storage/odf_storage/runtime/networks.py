"""Decides to which addresses a node connects on behalf of a user; no other module does.

Allowed are public addresses, and ranges that the administrator allows. A name is resolved once,
every address it has is checked, and the caller connects to one of the checked addresses, so a name
that changes a moment later gains an attacker nothing. Python's definition of public addresses
changes with patch releases, so this module lists the ranges that it sometimes lacks.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from odf_protocol.errors import Refused

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
RESOLVE_S = 10.0
"""Limit in seconds of the resolution of a name."""
PERSONAL_PREFIX = 64
"""Length of the prefix of the IPv6 network that a provider gives to one person."""
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""The range of IPv6 from which public addresses are assigned; the rest has other uses or none."""
_SPECIAL = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("100.64.0.0/10"),
    IPv4Network("168.63.129.16/32"),  # a cloud provider's internal service at a public address
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("198.18.0.0/15"),
    IPv4Network("224.0.0.0/3"),
    IPv6Network("2001::/23"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
)


class HostRefused(Refused):
    """The host is neither on the public network nor in an allowed range."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the host {host!r} is not on the public network; the administrator of this node "
            "can allow its range",
            host=host,
        )


def resolved(host: str, port: int) -> Sequence[str]:
    """Resolve a host by the system's resolver, which takes as long as the server of its names
    makes it wait; after `RESOLVE_S` seconds we do not. Raises `OSError`, `UnicodeError`."""
    outcome: list[Sequence[str] | OSError | UnicodeError] = []

    def resolve() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            outcome.append(list(dict.fromkeys(str(address[4][0]) for address in found)))
        except (OSError, UnicodeError) as error:
            outcome.append(error)

    thread = threading.Thread(target=resolve, name="resolver", daemon=True)
    thread.start()
    thread.join(RESOLVE_S)
    if not outcome:
        raise TimeoutError(f"the name {host!r} was not resolved within {RESOLVE_S:g} s")
    [found] = outcome
    if isinstance(found, OSError | UnicodeError):
        raise found
    return found


def reachable(
    host: str, port: int, networks: Iterable[str], resolve: Resolver = resolved
) -> list[str]:
    """Return the addresses of the host to connect to, in the order of the resolver.

    Raises:
        HostRefused: one of the addresses is not allowed.
        OSError, UnicodeError, ValueError: the name has no address.
    """
    allowed = tuple(networks)
    found = [ip_address(text.partition("%")[0]) for text in resolve(host, port)]
    if not found:
        raise OSError(f"the host {host!r} has no address")
    if not all(may_be_reached(address, allowed) for address in found):
        raise HostRefused(host)
    return [str(address) for address in found]


def may_be_reached(address: Address, networks: Iterable[str]) -> bool:
    """Return whether the address is on the public network, or in one of `networks`."""
    plain = unwrapped(address)
    ranges = [ip_network(network) for network in networks]
    if any(plain in each for each in ranges if each.version == plain.version):
        return True
    return is_public(plain)


def is_public(address: Address) -> bool:
    """Return whether the address is on the public network; embedded addresses are not unwrapped."""
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    special = any(address in each for each in _SPECIAL if each.version == address.version)
    return address.is_global and not address.is_multicast and not special


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address; otherwise the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    return inner or address


def network_of(host: str) -> str:
    """Return what one person has of client addresses: an IPv4 address, or the /64 network of an
    IPv6 address. A text that is no address is returned unchanged."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, PERSONAL_PREFIX), strict=False))
