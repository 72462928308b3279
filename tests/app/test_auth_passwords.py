"""Passwords are kept as scrypt hashes that name their cost; guesses are counted."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusing

from odf_node.service.auth.passwords import (
    ACCOUNT_FACTOR,
    ADDRESS_FACTOR,
    MAX_KEYS,
    MAX_PASSWORD_CHARS,
    Cost,
    SharedThrottle,
    Throttle,
    TooManyAttempts,
    check_new,
    hash_password,
    verify_password,
)
from odf_protocol.instant import Instant
from odf_storage.stores.registers.accounts.accounts import LoginAttempts
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import migrate

NOON = Instant.parse("2050-01-01T12:00:00Z")

CHEAP = Cost(work=2)
SALT = bytes(range(16))


@given(st.text(max_size=40), st.text(max_size=40))
@settings(deadline=None, max_examples=40)
def test_only_the_password_itself_is_taken(password, other):
    stored = hash_password(password, SALT, CHEAP)
    assert verify_password(password, stored)
    if other != password:
        same = hash_password(other, SALT, CHEAP) == stored  # another spelling of the same text
        assert verify_password(other, stored) is same


def test_the_stored_text_names_its_parameters():
    stored = hash_password("correct horse", SALT, Cost(work=4, passes=1))
    assert stored.startswith("$scrypt$ln=4,r=8,p=1$AAECAwQFBgcICQoLDA0ODw$")
    assert "correct" not in stored
    derived = hashlib.scrypt(b"correct horse", salt=SALT, n=16, r=8, p=1, dklen=32)
    assert verify_password("correct horse", stored)
    assert derived.hex() not in stored


def test_a_password_typed_on_another_keyboard_is_the_same():
    assert verify_password("cafe\u0301", hash_password("caf\u00e9", SALT, CHEAP))


def test_a_raised_cost_leaves_old_passwords_valid():
    old = hash_password("correct horse", SALT, CHEAP)
    new = hash_password("correct horse", SALT, Cost(work=3))
    assert old != new
    assert verify_password("correct horse", old)
    assert verify_password("correct horse", new)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "$scrypt$",
        "plain text",
        "$scrypt$ln=99,r=8,p=3$AAAA$AAAA",
        "$scrypt$ln=0,r=8,p=3$AAAA$AAAA",
        "$scrypt$ln=4,r=0,p=3$AAAA$AAAA",
        "$scrypt$ln=4,r=8,p=0$AAAA$AAAA",
        "$scrypt$ln=4,r=8,p=1$A$A",
    ],
)
def test_a_damaged_hash_opens_to_nobody(stored):
    assert not verify_password("correct horse", stored)
    assert not verify_password("", stored)


def test_the_default_costs_tens_of_megabytes():
    assert 128 * Cost().block_size * 2 ** Cost().work >= 32 * 1024 * 1024


@pytest.mark.parametrize("password", ["", "1234567", "x" * (MAX_PASSWORD_CHARS + 1), "\ud800" * 9])
def test_a_poor_password_is_not_taken(password):
    with refusing("PasswordNotTaken"):
        check_new(password)


def test_a_password_that_no_text_can_hold_opens_nothing():
    stored = hash_password("correct horse", SALT, CHEAP)
    assert not verify_password("\ud800", stored)
    assert not verify_password("x" * 10_000, stored)


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def throttle(clock):
    return Throttle(attempts=3, window_s=60, now=lambda: clock[0])


def test_guesses_are_bounded_by_account_and_address(throttle, clock):
    for _ in range(3):
        throttle.enter("anna", "1.2.3.4")
    with pytest.raises(TooManyAttempts) as refused:
        throttle.enter("ANNA", "1.2.3.4")
    assert 60 <= refused.value.facts["retry_after_s"] <= 61
    throttle.enter("bert", "1.2.3.4")
    throttle.enter("anna", "5.6.7.8")
    clock[0] += 60
    throttle.enter("anna", "1.2.3.4")


def test_the_right_password_begins_anew(throttle):
    for _ in range(10):
        throttle.enter("anna", "1.2.3.4")
        throttle.enter("anna", "1.2.3.4")
        throttle.succeeded("anna", "1.2.3.4")


def test_one_address_cannot_try_all_accounts(throttle):
    for number in range(3 * ADDRESS_FACTOR):
        throttle.enter(f"user{number}", "1.2.3.4")
    with pytest.raises(TooManyAttempts):
        throttle.enter("another", "1.2.3.4")
    throttle.enter("another", "5.6.7.8")


def test_an_ipv6_network_guesses_no_more_than_an_ipv4_address(throttle):
    for number in range(3):
        throttle.enter("anna", f"2001:db8:1:2::{number:x}")
    for host in ("2001:db8:1:2:ffff::1", "2001:db8:1:2::1%eth0"):
        with pytest.raises(TooManyAttempts):
            throttle.enter("anna", host)
    throttle.enter("anna", "2001:db8:1:3::1")
    throttle.enter("bert", "::ffff:1.2.3.4")
    assert throttle.count({("1.2.3.4", "bert"): 1}) is not None


def test_guesses_of_one_account_from_everywhere_are_bounded(throttle):
    for number in range(3 * ACCOUNT_FACTOR):
        throttle.enter("anna", f"10.0.{number // 250}.{number % 250}")
    with pytest.raises(TooManyAttempts):
        throttle.enter("anna", "11.0.0.1")
    throttle.enter("bert", "11.0.0.1")


def test_what_is_counted_is_bounded(throttle):
    for number in range(MAX_KEYS + 10):
        throttle.enter(f"user {number}", f"address {number}")
    assert len(throttle._windows) <= MAX_KEYS


def test_services_on_one_database_count_together(tmp_path):
    engine = open_engine(sqlite_url(tmp_path / "node.db"), durable=False)
    migrate(engine)
    one, other = (SharedThrottle(LoginAttempts(engine), 3, 60, lambda: NOON) for _ in range(2))
    for throttle in (one, other, one):
        throttle.enter("anna", "1.2.3.4")
    with pytest.raises(TooManyAttempts) as refused:
        other.enter("ANNA", "1.2.3.4")
    assert refused.value.facts["retry_after_s"] in (60, 61)
    other.enter("bert", "1.2.3.4")
    one.succeeded("anna", "1.2.3.4")
    for _ in range(3):
        other.enter("anna", "1.2.3.4")
    engine.dispose()
