"""Addresses a user may send the node to: public ones, in whatever way they are written."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from odf_storage.runtime.networks import HostRefused, may_be_reached, reachable

INSIDE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1:ffff::8.8.8.8",
    "100::1",
    "100:0:0:1::1",
    "2001:2::1",
    "2001:db8::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
OUTSIDE = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1"]


@pytest.mark.parametrize("address", INSIDE)
def test_special_addresses_are_not_public(address):
    assert not may_be_reached(ip_address(address), [])


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are(address):
    assert may_be_reached(ip_address(address), [])


def test_a_range_that_is_allowed_is_reached_under_each_spelling_of_its_addresses():
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"):
        assert may_be_reached(ip_address(address), ["10.0.0.0/8"])
    assert may_be_reached(ip_address("64:ff9b:1::1"), ["64:ff9b:1::/48"])
    assert not may_be_reached(ip_address("64:ff9b:1::1"), ["10.0.0.0/8"])


def test_one_address_inside_refuses_the_host():
    with pytest.raises(HostRefused):
        reachable("both.test", 80, [], lambda host, port: ["1.1.1.1", "10.0.0.1"])


def test_what_was_checked_is_what_is_connected_to():
    answers = iter([["1.1.1.1"], ["127.0.0.1"]])
    assert reachable("turns.test", 80, [], lambda host, port: next(answers)) == ["1.1.1.1"]
