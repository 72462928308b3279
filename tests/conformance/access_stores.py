"""What role stores, device logins and uploaded files promise. Subclasses give `stores`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import NOON, chain, entry, some_id

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import AccountNotFound, DatasetNotFound
from odf_storage.stores.ports.values import Account, AccountId, DeviceLogin, Role, UploadedFile

ANNA = Account(AccountId("did:odf:anna"), "Anna")
BERT = Account(AccountId("did:odf:bert"), "bert")
LATER = Instant(NOON.ns + NANOS)
LOGIN = DeviceLogin(code_hash=b"\x00\xff", created_at=NOON, expires_at=LATER)
FILE = UploadedFile(
    id="u1", account=ANNA.id, file_name="a b.csv", content_type="text/csv", created_at=NOON
)
ODD = ["", "\0", "\ud800", "' or 1=1 --"]


def people(stores: Stores) -> None:
    for account in (ANNA, BERT):
        stores.accounts.put_account(account)


def dataset(stores: Stores, alias: str = "kamu/foo") -> DatasetId:
    made = entry(alias)
    stores.registry.create(made, blocks=chain(made.id)[0])
    return made.id


class RoleStoreContract:
    def test_a_role_is_found_from_both_ends(self, stores: Stores) -> None:
        people(stores)
        one, two = dataset(stores, "kamu/one"), dataset(stores, "kamu/two")
        stores.roles.put(one, ANNA.id, Role.READER)
        stores.roles.put(one, BERT.id, Role.MAINTAINER)
        stores.roles.put(two, ANNA.id, Role.EDITOR)
        assert stores.roles.of_dataset(one) == {ANNA.id: Role.READER, BERT.id: Role.MAINTAINER}
        assert stores.roles.of_account(ANNA.id) == {one: Role.READER, two: Role.EDITOR}

    def test_a_new_role_replaces_the_old_one(self, stores: Stores) -> None:
        people(stores)
        one = dataset(stores)
        for role in Role:
            stores.roles.put(one, ANNA.id, role)
        assert stores.roles.of_dataset(one) == {ANNA.id: Role.MAINTAINER}

    def test_a_removed_role_is_gone_and_may_be_removed_again(self, stores: Stores) -> None:
        people(stores)
        one = dataset(stores)
        stores.roles.put(one, ANNA.id, Role.READER)
        for _ in range(2):
            stores.roles.remove(one, ANNA.id)
        assert stores.roles.of_dataset(one) == {}
        assert stores.roles.of_account(ANNA.id) == {}

    def test_roles_go_with_their_dataset(self, stores: Stores) -> None:
        people(stores)
        one = dataset(stores)
        stores.roles.put(one, ANNA.id, Role.READER)
        stores.registry.forget(one)
        assert stores.roles.of_account(ANNA.id) == {}
        made = entry("kamu/foo", dataset=one)
        stores.registry.create(made, blocks=chain(one)[0])
        assert stores.roles.of_dataset(one) == {}

    def test_a_role_is_of_an_account_with_a_dataset(self, stores: Stores) -> None:
        people(stores)
        with pytest.raises(DatasetNotFound):
            stores.roles.put(some_id(), ANNA.id, Role.READER)
        for odd in ODD:
            with pytest.raises(AccountNotFound):
                stores.roles.put(
                    dataset(stores, f"kamu/x{ODD.index(odd)}"), AccountId(odd), Role.READER
                )
            stores.roles.remove(some_id(), AccountId(odd))
        assert stores.roles.of_dataset(some_id()) == {}


class DeviceLoginsContract:
    def test_a_login_comes_back_as_it_was_put(self, stores: Stores) -> None:
        stores.devices.put(LOGIN)
        stores.devices.polled(LOGIN.code_hash, NOON)
        assert stores.devices.find(LOGIN.code_hash) == replace(LOGIN, polled_at=NOON)
        assert stores.devices.count() == 1

    def test_a_login_is_found_by_the_code_of_its_user(self, stores: Stores) -> None:
        shown = {"user_code_hash": b"\x00u", "client": "odf-node", "address": "192.0.2.1"}
        stores.devices.put(LOGIN)
        stores.devices.put(typed := replace(LOGIN, code_hash=b"other", **shown))
        assert stores.devices.find_by_user_code(b"\x00u") == typed
        assert stores.devices.find_by_user_code(b"none") is None

    def test_a_login_is_decided_once(self, stores: Stores) -> None:
        people(stores)
        denied = replace(LOGIN, code_hash=b"denied")
        stores.devices.put(LOGIN)
        stores.devices.put(denied)
        assert stores.devices.decide(LOGIN.code_hash, ANNA.id)
        assert stores.devices.decide(denied.code_hash, None)
        for code in (LOGIN.code_hash, denied.code_hash):
            assert not stores.devices.decide(code, BERT.id)
            assert not stores.devices.decide(code, None)
        assert stores.devices.find(LOGIN.code_hash) == replace(LOGIN, account=ANNA.id)
        assert stores.devices.find(denied.code_hash) == replace(denied, is_denied=True)

    def test_a_login_is_taken_once(self, stores: Stores) -> None:
        stores.devices.put(LOGIN)
        assert stores.devices.take(LOGIN.code_hash) == LOGIN
        assert stores.devices.take(LOGIN.code_hash) is None

    def test_an_absent_login_is_no_error(self, stores: Stores) -> None:
        people(stores)
        stores.devices.polled(b"none", NOON)
        assert stores.devices.find(b"none") is None
        assert not stores.devices.decide(b"none", ANNA.id)

    def test_expired_logins_go(self, stores: Stores) -> None:
        stores.devices.put(LOGIN)
        stores.devices.put(replace(LOGIN, code_hash=b"young", expires_at=Instant(LATER.ns + 1)))
        assert stores.devices.remove_expired(LATER) == 1
        assert stores.devices.find(LOGIN.code_hash) is None
        assert stores.devices.count() == 1


class UploadedFilesContract:
    def test_a_file_comes_back_as_it_was_announced(self, stores: Stores) -> None:
        people(stores)
        bare = replace(FILE, id="u2", content_type=None, file_name="ü'\"\n")
        for file in (FILE, bare):
            stores.files.put(file)
            assert stores.files.find(file.id) == file
        assert stores.files.count(ANNA.id) == 2
        assert stores.files.count(BERT.id) == 0

    def test_a_file_needs_an_account(self, stores: Stores) -> None:
        with pytest.raises(AccountNotFound):
            stores.files.put(FILE)

    def test_the_content_that_arrived_first_stays(self, stores: Stores) -> None:
        people(stores)
        stores.files.put(FILE)
        first, second = Multihash.of(b"first"), Multihash.of(b"second!")
        arrived = replace(FILE, hash=first, size=2**40)
        assert not stores.files.has_content(ANNA.id, first)
        assert stores.files.arrived("u1", first, 2**40) == arrived
        assert stores.files.arrived("u1", second, 7) == arrived
        assert stores.files.find("u1") == arrived
        assert stores.files.has_content(ANNA.id, first)
        assert not stores.files.has_content(BERT.id, first)

    @pytest.mark.parametrize("upload", ODD)
    def test_an_absent_file_is_none(self, stores: Stores, upload: str) -> None:
        assert stores.files.find(upload) is None
        assert stores.files.arrived(upload, Multihash.of(b""), 0) is None
        stores.files.remove(upload)
        assert not stores.files.has_content(AccountId(upload), Multihash.of(b""))

    def test_files_come_oldest_first(self, stores: Stores) -> None:
        people(stores)
        for number in (2, 1, 3):
            stores.files.put(replace(FILE, id=f"u{number}", created_at=Instant(NOON.ns + number)))
        before = Instant(NOON.ns + 3)
        assert [file.id for file in stores.files.oldest(before=before)] == ["u1", "u2"]
        assert [file.id for file in stores.files.oldest(before=before, limit=1)] == ["u1"]

    def test_content_goes_with_its_last_file(self, stores: Stores) -> None:
        people(stores)
        content = Multihash.of(b"same")
        for name, owner in (("u1", ANNA), ("u2", ANNA), ("u3", BERT), ("u4", ANNA)):
            stores.files.put(replace(FILE, id=name, account=owner.id))
        for name in ("u1", "u2", "u3"):
            stores.files.arrived(name, content, 4)
        for name, owner, is_kept in (("u1", ANNA, True), ("u2", ANNA, False), ("u4", BERT, True)):
            for _ in range(2):
                stores.files.remove(name)
            assert stores.files.has_content(owner.id, content) is is_kept
        assert stores.files.find("u1") is None
