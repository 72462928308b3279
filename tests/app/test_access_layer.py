"""The layer that turns rights into yes or no asks for rights, not for accounts."""

from __future__ import annotations

import pytest
from service import ten_rows

from odf_node.service.auth import access
from odf_node.service.auth.access import Action, DatasetHidden, authorize
from odf_node.service.auth.actors import ANONYMOUS
from odf_node.service.setting_groups.words import AnonymousReads
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DatasetKind
from odf_storage.stores.ports.values import DatasetEntry, Visibility


@pytest.fixture
def entry() -> DatasetEntry:
    alias = DatasetAlias.parse("anna/foo")
    return DatasetEntry(ten_rows().id, alias, DatasetKind.Root, Visibility.PRIVATE, Instant(0))


@pytest.fixture
def anybody_may_write(monkeypatch):
    """Nothing the node offers gives rights to nobody; the layer would know them."""
    rights = frozenset({Action.READ, Action.WRITE})
    monkeypatch.setattr(access, "grants", lambda *_: rights)


@pytest.mark.scenario("I08")
def test_nobody_reads_what_nobody_may_write(entry, anybody_may_write):
    assert authorize(ANONYMOUS, entry, Action.READ, AnonymousReads.PUBLIC) is entry


@pytest.mark.scenario("I14")
def test_nobody_passes_this_layer_where_nobody_may_write(entry, anybody_may_write):
    assert authorize(ANONYMOUS, entry, Action.WRITE, AnonymousReads.PUBLIC) is entry


def test_without_rights_nobody_sees_it(entry):
    with pytest.raises(DatasetHidden):
        authorize(ANONYMOUS, entry, Action.READ, AnonymousReads.PUBLIC)
