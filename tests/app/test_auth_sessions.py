"""Session tokens: signed, expiring, forgeries refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.actors import Reason, identify
from app.auth.sessions import ISSUER, MalformedSession, Session, read_session
from app.usecases.accounts import create_token, ensure_account
from protocol.instant import NANOS, Instant
from storage.config import memory_stores
from storage.values import AccountId, Scope, StoredPassword

NOW = Instant.parse("2050-01-01T12:00:00.5Z")
SECRET = bytes(range(32))
DAY = 86_400


def _part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _forged(header, claims, secret=SECRET):
    signed = f"{_part(header)}.{_part(claims)}"
    signature = hmac.digest(secret, signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def test_a_session_is_read_back_from_its_token():
    session = Session.begin(AccountId("did:odf:anna"), NOW, DAY)
    assert read_session(session.sign(SECRET), SECRET) == session
    assert session.expires_s - session.issued_s == DAY


def test_the_token_is_a_json_web_token_with_four_claims():
    header, claims, _ = Session.begin(AccountId("did:odf:a"), NOW, DAY).sign(SECRET).split(".")
    read = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, claims)]
    issued = NOW.ns // NANOS
    assert read[0] == {"alg": "HS256", "typ": "JWT"}
    assert read[1] == {"iat": issued, "exp": issued + DAY, "iss": ISSUER, "sub": "did:odf:a"}


@given(st.integers(0, 300), st.sampled_from("AZaz09-_."))
def test_a_token_with_one_changed_character_is_refused(at, char):
    token = Session.begin(AccountId("did:odf:anna"), NOW, DAY).sign(SECRET)
    changed = token[:at] + char + token[at + 1 :]
    if changed != token:
        with pytest.raises(MalformedSession):
            read_session(changed, SECRET)


HEADER = {"alg": "HS256", "typ": "JWT"}
CLAIMS = {"iat": 1, "exp": 2**40, "iss": ISSUER, "sub": "did:odf:anna"}


@pytest.mark.parametrize(
    ("header", "claims"),
    [
        ({"alg": "none", "typ": "JWT"}, CLAIMS),
        ({"alg": "HS512", "typ": "JWT"}, CLAIMS),
        (HEADER, {**CLAIMS, "iss": "somebody"}),
        (HEADER, {**CLAIMS, "exp": "2"}),
        (HEADER, {**CLAIMS, "exp": True}),
        (HEADER, {**CLAIMS, "sub": 5}),
        (HEADER, {**CLAIMS, "iat": 1.5}),
        (HEADER, []),
        ([], CLAIMS),
    ],
)
def test_a_signed_token_of_another_kind_is_refused(header, claims):
    with pytest.raises(MalformedSession):
        read_session(_forged(header, claims), SECRET)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader_of_sessions(text):
    for candidate in (text, f"{text}.{text}.{text}", "a.b." + text, "x" * 5000):
        with pytest.raises(MalformedSession):
            read_session(candidate, SECRET)


@pytest.fixture
def accounts():
    return memory_stores(clock=lambda: NOW).accounts


def _session(accounts, now=NOW, ttl_s=DAY):
    owner = ensure_account(accounts, "anna", bytes)
    return owner, Session.begin(owner.id, now, ttl_s).sign(SECRET)


def test_a_session_is_as_good_as_a_token(accounts):
    owner, token = _session(accounts)
    actor = identify(token, accounts, NOW, secret=SECRET, roles_of=lambda _: {1: 2})
    assert (actor.account, actor.scopes, actor.roles) == (owner, set(Scope), {1: 2})
    assert identify(token, accounts, NOW).reason is Reason.INVALID
    access = str(create_token(accounts, owner, lambda n: bytes(n), NOW))
    assert identify(access, accounts, NOW, secret=SECRET).account == owner


def test_a_session_ends(accounts):
    _, token = _session(accounts)
    ends = Instant((NOW.ns // NANOS + DAY) * NANOS)
    assert identify(token, accounts, Instant(ends.ns - 1), secret=SECRET).account is not None
    assert identify(token, accounts, ends, secret=SECRET).reason is Reason.EXPIRED


def test_a_session_of_another_node_or_of_nobody_is_invalid(accounts):
    _, token = _session(accounts)
    assert identify(token, accounts, NOW, secret=bytes(32)).reason is Reason.INVALID
    gone = Session.begin(AccountId("did:odf:gone"), NOW, DAY).sign(SECRET)
    assert identify(gone, accounts, NOW, secret=SECRET).reason is Reason.INVALID


def test_a_changed_password_ends_the_sessions_before_it(accounts):
    owner, token = _session(accounts)
    accounts.set_password(owner.id, StoredPassword("$", NOW))
    assert identify(token, accounts, NOW, secret=SECRET).account == owner
    accounts.set_password(owner.id, StoredPassword("$", Instant(NOW.ns + NANOS)))
    assert identify(token, accounts, NOW, secret=SECRET).reason is Reason.INVALID
