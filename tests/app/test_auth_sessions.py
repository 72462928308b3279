"""Session tokens: signed, expiring, forgeries refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service import serving
from throwaway import throwaway_stores

from odf_node.service.accounts.accounts import create_token, ensure_account
from odf_node.service.auth.actors import (
    ISSUER,
    MalformedSession,
    Reason,
    Session,
    identify,
    read_session,
)
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.private_files import keep_private
from odf_storage.stores.ports.values import AccountId, Scope, StoredPassword

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
    assert read_session(session.sign(SECRET), [SECRET]) == session
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
            read_session(changed, [SECRET])


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
        read_session(_forged(header, claims), [SECRET])


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader_of_sessions(text):
    for candidate in (text, f"{text}.{text}.{text}", "a.b." + text, "x" * 5000):
        with pytest.raises(MalformedSession):
            read_session(candidate, [SECRET])


@pytest.fixture
def accounts():
    return throwaway_stores(clock=lambda: NOW).accounts


def _session(accounts, now=NOW, ttl_s=DAY):
    owner = ensure_account(accounts, "anna", bytes)
    return owner, Session.begin(owner.id, now, ttl_s).sign(SECRET)


def test_a_session_is_as_good_as_a_token(accounts):
    owner, token = _session(accounts)
    actor = identify(token, accounts, NOW, secrets=(SECRET,), roles_of=lambda _: {1: 2})
    assert (actor.account, actor.scopes, actor.roles) == (owner, set(Scope), {1: 2})
    assert identify(token, accounts, NOW).reason is Reason.INVALID
    access = str(create_token(accounts, owner, lambda n: bytes(n), NOW))
    assert identify(access, accounts, NOW, secrets=(SECRET,)).account == owner


def test_a_session_ends(accounts):
    _, token = _session(accounts)
    ends = Instant((NOW.ns // NANOS + DAY) * NANOS)
    assert identify(token, accounts, Instant(ends.ns - 1), secrets=(SECRET,)).account is not None
    assert identify(token, accounts, ends, secrets=(SECRET,)).reason is Reason.EXPIRED


def test_a_session_of_another_node_or_of_nobody_is_invalid(accounts):
    _, token = _session(accounts)
    assert identify(token, accounts, NOW, secrets=(bytes(32),)).reason is Reason.INVALID
    gone = Session.begin(AccountId("did:odf:gone"), NOW, DAY).sign(SECRET)
    assert identify(gone, accounts, NOW, secrets=(SECRET,)).reason is Reason.INVALID


def test_a_changed_password_ends_the_sessions_before_it(accounts):
    owner, token = _session(accounts)
    accounts.set_password(owner.id, StoredPassword("$", NOW))
    assert identify(token, accounts, NOW, secrets=(SECRET,)).account == owner
    accounts.set_password(owner.id, StoredPassword("$", Instant(NOW.ns + NANOS)))
    assert identify(token, accounts, NOW, secrets=(SECRET,)).reason is Reason.INVALID


def test_a_stolen_database_signs_no_session(tmp_path):
    """A copy of the database holds the secret that went into the signature, and not the key."""
    with serving(tmp_path / "data", tenancy="multi") as service:
        token = service.token("alice")
        alice = service.node.stores.accounts.find_account("alice")
        copied = tmp_path / "copy.db"
        with sqlite3.connect(tmp_path / "data" / "node.db") as theirs:
            theirs.execute("VACUUM INTO ?", (str(copied),))
        with sqlite3.connect(copied) as stolen:
            secrets = [bytes(row[0]) for row in stolen.execute("SELECT value FROM secrets")]
        assert secrets
        session = Session.begin(alice.id, service.node.clock(), 3600)
        for secret in secrets:
            with service.http(session.sign(secret)) as http:
                assert http.get("/accounts/me").status_code == 401
        own = session.sign(service.node.session_secrets[0])
        for good in (own, token):
            with service.http(good) as http:
                assert http.get("/accounts/me").status_code == 200
    thief = open_node(Settings(data=tmp_path / "thief", database_url=f"sqlite:///{copied}"))
    assert thief.callers.identify(own).is_anonymous
    thief.stores.close()


def test_sessions_outlive_a_change_of_keys_while_the_old_one_is_known(tmp_path):
    def opened(*keys):
        texts = ",".join(base64.b64encode(key).decode() for key in keys)
        return open_node(Settings(data=tmp_path, secrets_keys=texts))

    old, new = b"o" * 32, b"n" * 32
    node = opened(old)
    account = node.stores.accounts.find_account("kamu")
    before = Session.begin(account.id, node.clock(), 3600).sign(node.session_secrets[0])
    node.stores.close()
    for keys, is_known in (((new, old), True), ((old, new), True), ((new,), False)):
        node = opened(*keys)
        assert node.callers.identify(before).is_anonymous is not is_known
        node.stores.close()


def test_nobody_else_on_the_machine_reads_the_data_folder(tmp_path):
    data = tmp_path / "data"
    open_node(Settings(data=data)).stores.close()
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "node.db").stat().st_mode) == 0o600
    before = os.umask(0o022)
    try:
        data.chmod(0o755)
        (data / "node.db").chmod(0o644)
        keep_private(data)
        for path in (data, *data.iterdir()):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        made = data / "made"
        made.touch()
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
    finally:
        os.umask(before)
