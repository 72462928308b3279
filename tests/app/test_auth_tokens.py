"""Access tokens, bearer headers, and what actors may do with datasets."""

from __future__ import annotations

import base64
import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusing
from throwaway import throwaway_stores

from odf_node.service.accounts.accounts import create_token, ensure_account
from odf_node.service.auth.access import Action, grants, may_create
from odf_node.service.auth.actors import (
    ANONYMOUS,
    AccessToken,
    Actor,
    MalformedToken,
    Reason,
    bearer_of,
    identify,
)
from odf_node.service.setting_groups.words import AnonymousReads
from odf_protocol.errors import Refused
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    DatasetEntry,
    Reach,
    Role,
    Scope,
    Visibility,
)

HERE, ELSEWHERE = DatasetId(bytes(32)), DatasetId(bytes(range(32)))
NOW = Instant.parse("2050-01-01T12:00:00Z")


@given(st.binary(min_size=32, max_size=32))
def test_a_token_is_read_back_from_its_text(random):
    token = AccessToken.of_random(random)
    text = str(token)
    assert len(text) == 61
    assert text.startswith("ka_")
    assert AccessToken.parse(text) == token
    assert AccessToken.parse("ka_" + text[3:].lower()) == token


@given(st.integers(3, 60), st.sampled_from("0123456789ABCDEFGHJKMNPQRSTVWXYZ"))
def test_a_token_with_one_changed_character_is_refused(at, char):
    text = str(AccessToken.of_random(bytes(range(32))))
    changed = text[:at] + char + text[at + 1 :]
    if changed != text and at != 60:
        with pytest.raises(MalformedToken):
            AccessToken.parse(changed)


@pytest.mark.parametrize("text", ["", "ka_", "ka_" + "0" * 57, "xx_" + "0" * 58, "ka_" + "é" * 58])
def test_text_that_is_no_token_is_refused(text):
    with pytest.raises(MalformedToken):
        AccessToken.parse(text)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader_of_tokens(text):
    for candidate in (text, "ka_" + text):
        try:
            AccessToken.parse(candidate)
        except MalformedToken:
            continue


def test_the_secret_is_not_shown_by_accident():
    token = AccessToken.of_random(bytes(range(32)))
    assert token.secret.hex() not in repr(token)
    assert repr(token.secret) not in repr(token)
    assert token.secret_hash == hashlib.sha3_256(token.secret).digest()


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Bearer  ", "Basic abc", "Bearer a b", "token", "Bearer é"]
)
def test_a_header_without_a_bearer_token_is_refused(value):
    with refusing("MalformedBearer"):
        bearer_of([(b"authorization", value.encode("latin-1"))])


def test_a_bearer_token_is_found_whatever_the_case_of_the_scheme():
    assert bearer_of([(b"Authorization", b"bearer abc")]) == "abc"
    assert bearer_of([(b"accept", b"*/*")]) is None
    with refusing("MalformedBearer"):
        bearer_of([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")])


@pytest.mark.parametrize(
    ("told", "token"),
    [(":ka_x", "ka_x"), ("ann:ka_x", "ka_x"), ("a b:p:q", "p:q"), ("ann:", ""), ("ann", "")],
)
def test_the_password_is_the_token_where_passwords_are_taken(told, token):
    encoded = base64.b64encode(told.encode())
    for written in (encoded, encoded.rstrip(b"=")):
        header = [(b"authorization", b"basic " + written)]
        assert bearer_of(header, takes_passwords=True) == token
        with refusing("MalformedBearer"):
            bearer_of(header)


@pytest.mark.parametrize("value", [b"Basic %%%", b"Basic /w==", b"Basic a", b"Digest a"])
def test_what_is_no_password_is_no_token(value):
    with refusing("MalformedBearer"):
        bearer_of([(b"authorization", value)], takes_passwords=True)
    with refusing("MalformedBearer"):
        bearer_of([(b"authorization", b"Basic OmE=")] * 2, takes_passwords=True)


@pytest.fixture
def accounts():
    return throwaway_stores(clock=lambda: NOW).accounts


def test_a_valid_token_names_its_account_and_scopes(accounts):
    owner = ensure_account(accounts, "alice", os.urandom)
    token = create_token(accounts, owner, os.urandom, NOW, scopes=[Scope.READ])
    actor = identify(str(token), accounts, NOW)
    assert actor.account == owner
    assert actor.scopes == {Scope.READ}


def test_an_expired_unknown_or_revoked_token_leaves_an_anonymous_with_its_reason(accounts):
    owner = ensure_account(accounts, "alice", os.urandom)
    expired = create_token(accounts, owner, os.urandom, NOW, expires_at=NOW)
    revoked = create_token(accounts, owner, os.urandom, NOW)
    accounts.revoke_token(revoked.stored_id)
    forged = AccessToken(expired.id, os.urandom(16))
    unknown = AccessToken.of_random(os.urandom(32))
    assert identify(None, accounts, NOW).reason is Reason.NONE_PROVIDED
    assert identify(str(expired), accounts, NOW).reason is Reason.EXPIRED
    for token in (revoked, forged, unknown, "bad-access-token"):
        actor = identify(str(token), accounts, NOW)
        assert actor.is_anonymous
        assert actor.reason is Reason.INVALID


def test_an_account_keeps_its_identity_and_gains_but_never_loses_administration(accounts):
    first = ensure_account(accounts, "alice", os.urandom)
    assert ensure_account(accounts, "ALICE", os.urandom) == first
    promoted = ensure_account(accounts, "alice", os.urandom, is_admin=True)
    assert (promoted.id, promoted.is_admin) == (first.id, True)
    assert ensure_account(accounts, "alice", os.urandom).is_admin


def _actor(name, *, admin=False, scopes=frozenset(Scope), **more):
    return Actor(Account(AccountId(f"did:{name}"), name, admin), frozenset(scopes), **more)


def _entry(visibility):
    alias = DatasetAlias.parse("alice/data")
    return DatasetEntry(HERE, alias, DatasetKind.Root, visibility, NOW)


@pytest.mark.parametrize(
    ("actor", "private", "public"),
    [
        (ANONYMOUS, "", "r"),
        (_actor("bob"), "", "r"),
        (_actor("Alice"), "rwmo", "rwmo"),
        (_actor("root", admin=True), "rwmo", "rwmo"),
        (_actor("bob", roles={HERE: Role.READER}), "r", "r"),
        (_actor("bob", roles={HERE: Role.EDITOR}), "rw", "rw"),
        (_actor("bob", roles={HERE: Role.MAINTAINER}), "rwm", "rwm"),
        (_actor("bob", roles={HERE: Role.MAINTAINER}, scopes={Scope.WRITE}), "rw", "rw"),
        (_actor("bob", roles={ELSEWHERE: Role.MAINTAINER}), "", "r"),
        (_actor("alice", reach=Reach.ACCOUNT), "rwmo", "rwmo"),
        (_actor("root", admin=True, reach=Reach.ACCOUNT), "", "r"),
        (_actor("bob", roles={HERE: Role.EDITOR}, reach=Reach.ACCOUNT), "", "r"),
        (_actor("alice", reach=Reach.DATASET, dataset=HERE), "rwmo", "rwmo"),
        (_actor("alice", reach=Reach.DATASET, dataset=ELSEWHERE), "", "r"),
        (_actor("bob", roles={HERE: Role.EDITOR}, reach=Reach.DATASET, dataset=HERE), "rw", "rw"),
        (_actor("alice", scopes={Scope.MANAGE}), "rmo", "rmo"),
        (_actor("alice", scopes={Scope.READ}), "r", "r"),
        (_actor("alice", scopes={Scope.WRITE}), "rw", "rw"),
        (_actor("alice", scopes=()), "", "r"),
    ],
)
def test_owners_administrators_and_roles_get_their_actions_and_all_read_what_is_public(
    actor, private, public
):
    letters = {Action.READ: "r", Action.WRITE: "w", Action.MAINTAIN: "m", Action.OWN: "o"}
    for visibility, expected in ((Visibility.PRIVATE, private), (Visibility.PUBLIC, public)):
        allowed = grants(actor, _entry(visibility), AnonymousReads.PUBLIC)
        assert {letters[action] for action in allowed} == set(expected)


def test_everything_may_be_read_where_the_administrator_says_so():
    assert grants(ANONYMOUS, _entry(Visibility.PRIVATE), AnonymousReads.ALL) == {Action.READ}


@pytest.mark.parametrize(
    ("actor", "allowed"),
    [
        (ANONYMOUS, False),
        (_actor("bob"), False),
        (_actor("root", admin=True), False),
        (_actor("ALICE"), True),
        (_actor("alice", scopes={Scope.WRITE}), False),
        (_actor("alice", scopes={Scope.CREATE}), True),
        (_actor("alice", reach=Reach.ACCOUNT), True),
        (_actor("alice", reach=Reach.DATASET, dataset=DatasetId(bytes(32))), False),
    ],
)
def test_datasets_are_created_in_ones_own_account_only(actor, allowed):
    alias = DatasetAlias.parse("alice/new")
    if allowed:
        may_create(actor, alias)
    else:
        with pytest.raises(Refused):
            may_create(actor, alias)
