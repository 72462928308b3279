"""Authors of definitions are kept in both databases, and read as themselves."""

from __future__ import annotations

import itertools

import pytest
from chain_maker import long_chain
from tests.conformance.definition_authors import DefinitionAuthorsContract
from throwaway import throwaway_stores

from odf_node.service.auth.access import Action, grants
from odf_node.service.auth.actors import Actor
from odf_node.service.setting_groups.words import AnonymousReads
from odf_protocol.identity import DatasetAlias, DatasetId, Name
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.node.rights import RightsReader
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    DatasetEntry,
    Reach,
    Role,
    Scope,
    Visibility,
)


class TestDefinitionAuthors(DefinitionAuthorsContract):
    pass


IDS = [DatasetId(bytes([number]) * 32) for number in (1, 2)]


def entry(dataset: DatasetId, visibility: Visibility) -> DatasetEntry:
    alias = DatasetAlias(Name(f"d{dataset.key[0]}"), Name("alice"))
    return DatasetEntry(dataset, alias, DatasetKind.Root, visibility, Instant(0))


@pytest.mark.parametrize("reach", Reach)
@pytest.mark.parametrize("name", ["Alice", "bob"])
def test_a_definition_reads_what_its_author_may_read_by_hand(name: str, reach: Reach) -> None:
    """One table of rights is the service's, the other goes with the jobs: they agree."""
    for is_admin, role, item in itertools.product((False, True), (None, *Role), IDS):
        stores = throwaway_stores()
        account = Account(AccountId("did:odf:some"), name, is_admin)
        stores.accounts.put_account(account)
        found = entry(item, Visibility.PRIVATE)
        stores.registry.create(found, blocks=long_chain(item, 1))
        if role is not None:
            stores.roles.put(item, account.id, role)
        bound = IDS[0] if reach is Reach.DATASET else None
        actor = Actor(
            account,
            frozenset(Scope),
            reach=reach,
            dataset=bound,
            roles=stores.roles.of_account(account.id),
        )
        by_hand = Action.READ in grants(actor, found, AnonymousReads.PUBLIC)
        reader = RightsReader(Name(name), account, reach, IDS[0])
        assert reader.may_read(stores, found) == by_hand, (is_admin, role, item)
