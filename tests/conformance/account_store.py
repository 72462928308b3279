"""What every `AccountStore` promises. Subclasses give fixtures `accounts` and `clock`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import NOON
from index_parts import ManualClock
from refusals import refusing

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    Reach,
    Scope,
    StoredPassword,
    Token,
)
from odf_storage.stores.registers.accounts.accounts import AccountStore

ANNA = Account(AccountId("did:odf:anna"), "Anna")
BERT = Account(AccountId("did:odf:bert"), "bert", is_admin=True)
TOKEN = Token(
    id="t1",
    account=ANNA.id,
    secret_hash=b"\x00\xff" * 16,
    scopes=frozenset({Scope.READ, Scope.WRITE}),
    created_at=Instant(NOON.ns + 1),
    expires_at=Instant.parse("9999-12-31T23:59:59.999999999Z"),
    label="laptop",
    reach=Reach.DATASET,
    dataset=DatasetId(bytes(range(32))),
)


class AccountStoreContract:
    def test_an_account_is_found_by_name_in_any_case_and_by_id(
        self, accounts: AccountStore
    ) -> None:
        accounts.put_account(ANNA)
        assert accounts.find_account("aNNA") == ANNA
        assert accounts.account(ANNA.id) == ANNA

    def test_putting_an_account_again_changes_it(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        changed = replace(ANNA, name="anna2", is_admin=True)
        accounts.put_account(changed)
        assert accounts.account(ANNA.id) == changed
        assert accounts.find_account("anna") is None

    def test_a_name_belongs_to_one_account_whatever_its_case(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        with refusing("AccountNameTaken"):
            accounts.put_account(replace(BERT, name="ANNA"))
        assert accounts.find_account("anna") == ANNA

    @pytest.mark.parametrize("name", ["anna", "", "\0", "\ud800", "' or 1=1 --"])
    def test_an_absent_account_is_not_found(self, accounts: AccountStore, name: str) -> None:
        assert accounts.find_account(name) is None
        with pytest.raises(AccountNotFound):
            accounts.account(AccountId(name))

    def test_pages_go_through_all_accounts_in_the_order_of_folded_names(
        self, accounts: AccountStore
    ) -> None:
        for name in ("bert", "Anna", "c", "B"):
            accounts.put_account(Account(AccountId(f"did:odf:{name}"), name))
        seen: list[str] = []
        while page := accounts.page(after=seen[-1].lower() if seen else None, limit=3):
            seen += [account.name for account in page]
        assert seen == ["Anna", "B", "bert", "c"]

    @pytest.mark.parametrize("odd", ["\0", "\ud800", "\U0010ffff", "'--"])
    def test_odd_cursors_are_no_matter(self, accounts: AccountStore, odd: str) -> None:
        accounts.page(after=odd)

    def test_an_account_is_disabled_since_the_first_time_until_it_is_enabled(
        self, accounts: AccountStore
    ) -> None:
        accounts.put_account(ANNA)
        accounts.put_account(BERT)
        for at in (NOON, Instant(NOON.ns + 5)):
            accounts.set_disabled(ANNA.id, at)
        accounts.put_account(replace(ANNA, is_admin=True))
        assert accounts.find_account("anna") == replace(ANNA, is_admin=True, disabled_at=NOON)
        assert accounts.account(BERT.id).disabled_at is None
        accounts.set_disabled(ANNA.id, None)
        assert accounts.account(ANNA.id).disabled_at is None
        with pytest.raises(AccountNotFound):
            accounts.set_disabled(AccountId("nobody"), NOON)

    def test_a_password_comes_back_as_it_was_last_set(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        assert accounts.find_password(ANNA.id) is None
        for text in ("$first", "$second"):
            accounts.set_password(ANNA.id, StoredPassword(text, NOON))
        assert accounts.find_password(ANNA.id) == StoredPassword("$second", NOON)

    @pytest.mark.parametrize("name", ["anna", "", "\0", "\ud800"])
    def test_an_absent_account_has_no_password(self, accounts: AccountStore, name: str) -> None:
        assert accounts.find_password(AccountId(name)) is None
        with pytest.raises(AccountNotFound):
            accounts.set_password(AccountId(name), StoredPassword("$", NOON))

    def test_a_stored_password_is_not_shown_by_accident(self) -> None:
        assert "$hash" not in repr(StoredPassword("$hash", NOON))

    def test_the_first_secret_of_a_name_stays(self, accounts: AccountStore) -> None:
        assert accounts.secret("session", b"\x00\xff") == b"\x00\xff"
        assert accounts.secret("session", b"other") == b"\x00\xff"
        assert accounts.secret("other", b"other") == b"other"

    def test_a_token_comes_back_as_it_was_put(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        accounts.put_token(TOKEN)
        assert accounts.find_token("t1") == TOKEN

    @pytest.mark.parametrize("token", ["t2", "", "\0", "\ud800"])
    def test_an_absent_token_is_not_found(self, accounts: AccountStore, token: str) -> None:
        assert accounts.find_token(token) is None
        with refusing("TokenNotFound"):
            accounts.revoke_token(token)

    def test_a_token_id_is_given_once(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        accounts.put_token(TOKEN)
        with refusing("TokenIdTaken"):
            accounts.put_token(replace(TOKEN, secret_hash=b"other"))
        assert accounts.find_token("t1") == TOKEN

    def test_a_token_needs_an_account(self, accounts: AccountStore) -> None:
        with pytest.raises(AccountNotFound):
            accounts.put_token(TOKEN)

    def test_tokens_of_an_account_come_oldest_first(self, accounts: AccountStore) -> None:
        accounts.put_account(ANNA)
        accounts.put_account(BERT)
        older = replace(TOKEN, id="t0", created_at=NOON, expires_at=None)
        for token in (TOKEN, older, replace(TOKEN, id="t2", account=BERT.id)):
            accounts.put_token(token)
        assert accounts.tokens(ANNA.id) == [older, TOKEN]

    def test_a_revoked_token_says_when_and_stays_so(
        self, accounts: AccountStore, clock: ManualClock
    ) -> None:
        accounts.put_account(ANNA)
        accounts.put_token(TOKEN)
        accounts.revoke_token("t1")
        revoked = replace(TOKEN, revoked_at=clock.now)
        clock.tick()
        accounts.revoke_token("t1")
        assert accounts.find_token("t1") == revoked
