"""What every `DatasetRegistry` promises. Subclasses give a fixture `index`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chain_maker import chain, entry, some_id
from index_parts import Index

from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_protocol.metadata.events import DatasetKind
from odf_storage.stores.ports.errors import AliasTaken, DatasetIdTaken, DatasetNotFound
from odf_storage.stores.ports.values import DatasetEntry, Visibility


def register(index: Index, *aliases: str) -> list[DatasetEntry]:
    entries = [entry(alias) for alias in aliases]
    for each in entries:
        index.registry.create(each, blocks=chain(each.id)[0])
    return entries


class RegistryContract:
    def test_a_created_dataset_is_found_by_id_and_alias(self, index: Index) -> None:
        created = entry("kamu/foo", kind=DatasetKind.Derivative)
        index.registry.create(created, blocks=chain(created.id)[0])
        assert index.registry.get(DatasetRef(id=created.id)) == created
        assert index.registry.find(DatasetRef(alias=created.alias)) == created

    def test_several_datasets_are_found_by_one_look_and_absent_ones_are_left_out(
        self, index: Index
    ) -> None:
        first, second, _ = register(index, "kamu/one", "kamu/two", "kamu/three")
        wanted = [first.id, some_id("nobody"), second.id]
        assert index.registry.find_all(wanted) == {first.id: first, second.id: second}
        assert index.registry.find_all([]) == {}
        asked = [DatasetAlias.parse(name) for name in ("kamu/ONE", "kamu/none", "KAMU/two")]
        assert index.registry.find_named(asked) == {asked[0]: first, asked[2]: second}
        assert index.registry.find_named([]) == {}

    def test_creation_brings_entry_blocks_and_head_together(self, index: Index) -> None:
        created = entry()
        blocks, _ = chain(created.id)
        index.registry.create(created, blocks=blocks)
        assert index.refs.head(created.id) == blocks[-1].hash
        assert index.blocks.find(created.id, blocks[0].hash) == blocks[0]

    def test_creation_is_the_first_line_of_the_log(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        [line] = index.refs.moves(after=0)
        assert (line.dataset, line.ref, line.old) == (created.id, "head", None)
        assert line.new == index.refs.head(created.id)

    def test_names_keep_their_case_and_compare_without_it(self, index: Index) -> None:
        register(index, "Kamu/Foo.Bar")
        found = index.registry.get(DatasetRef(alias=DatasetAlias.parse("kAMU/foo.BAR")))
        assert str(found.alias) == "Kamu/Foo.Bar"

    def test_a_taken_alias_is_refused_whatever_its_case(self, index: Index) -> None:
        register(index, "kamu/foo")
        other = entry("KAMU/Foo", dataset=some_id("someone else"))
        with pytest.raises(AliasTaken) as refused:
            index.registry.create(other, blocks=chain(other.id)[0])
        assert refused.value.facts == {"alias": "KAMU/Foo"}
        assert index.registry.find(DatasetRef(id=other.id)) is None
        with pytest.raises(DatasetNotFound):
            index.refs.head(other.id)
        assert len(index.refs.moves(after=0)) == 1

    def test_a_dataset_cannot_be_created_twice(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        again = entry("kamu/bar", dataset=created.id)
        with pytest.raises(DatasetIdTaken) as refused:
            index.registry.create(again, blocks=chain(created.id)[0])
        assert refused.value.facts == {"dataset_id": str(created.id)}
        assert index.registry.get(DatasetRef(id=created.id)) == created

    @pytest.mark.parametrize("ref", [DatasetRef(id=some_id()), DatasetRef.parse("kamu/foo")])
    def test_an_absent_dataset_is_not_found(self, index: Index, ref: DatasetRef) -> None:
        assert index.registry.find(ref) is None
        with pytest.raises(DatasetNotFound):
            index.registry.get(ref)

    def test_pages_go_through_all_entries_in_the_order_of_folded_aliases(
        self, index: Index
    ) -> None:
        register(index, "kamu/b", "kamu/A.x", "kamu/a-x", "Anna/z", "kamu/a", "kamu/ab")
        seen: list[str] = []
        while page := index.registry.page(after=seen[-1] if seen else None, limit=2):
            assert len(page) <= 2
            seen += [each.alias.folded for each in page]
        assert seen == ["anna/z", "kamu/a", "kamu/a-x", "kamu/a.x", "kamu/ab", "kamu/b"]

    def test_a_page_can_be_of_one_account(self, index: Index) -> None:
        register(index, "kamu/a", "anna/b", "annab/c")
        page = index.registry.page(account="ANNA")
        assert [str(each.alias) for each in page] == ["anna/b"]

    @pytest.mark.parametrize("odd", ["\0", "\ud800", "\U0010ffff", "'--"])
    def test_odd_cursors_are_no_matter(self, index: Index, odd: str) -> None:
        register(index, "kamu/a")
        assert index.registry.page(account=odd) == []
        index.registry.page(after=odd)

    def test_a_renamed_dataset_is_found_by_its_new_name_only(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        index.registry.rename(created.id, DatasetAlias.parse("kamu/bar"))
        assert index.registry.find(DatasetRef(alias=created.alias)) is None
        assert index.registry.get(DatasetRef.parse("kamu/bar")).id == created.id

    def test_former_names_lead_to_the_dataset_by_whichever_name_it_has(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        for name in ("kamu/bar", "kamu/baz"):
            index.registry.rename(created.id, DatasetAlias.parse(name))
        for name in ("kamu/foo", "KAMU/Bar"):
            found = index.registry.find_former(DatasetAlias.parse(name))
            assert found is not None
            assert (found.id, str(found.alias)) == (created.id, "kamu/baz")
        for name in ("kamu/baz", "anna/foo", "kamu/none"):
            assert index.registry.find_former(DatasetAlias.parse(name)) is None

    @pytest.mark.parametrize("taken", ["created", "renamed", "renamed back", "forgotten"])
    def test_a_former_name_is_forgotten_when_a_dataset_takes_it(
        self, index: Index, taken: str
    ) -> None:
        [first] = register(index, "kamu/foo")
        index.registry.rename(first.id, DatasetAlias.parse("kamu/bar"))
        second = None
        if taken == "renamed back":
            index.registry.rename(first.id, first.alias)
            index.registry.rename(first.id, DatasetAlias.parse("kamu/FOO"))
        elif taken == "forgotten":
            index.registry.forget(first.id)
        elif taken == "created":
            second = entry("kamu/Foo", dataset=some_id("second"))
            index.registry.create(second, blocks=chain(second.id)[0])
        else:
            [second] = register(index, "kamu/second")
            index.registry.rename(second.id, DatasetAlias.parse("kamu/Foo"))
        assert index.registry.find_former(first.alias) is None
        if second is not None:
            index.registry.forget(second.id)
            assert index.registry.find_former(first.alias) is None

    def test_a_dataset_may_change_the_case_of_its_name(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        index.registry.rename(created.id, DatasetAlias.parse("kamu/FOO"))
        assert str(index.registry.get(DatasetRef(id=created.id)).alias) == "kamu/FOO"

    def test_renaming_to_a_taken_name_changes_nothing(self, index: Index) -> None:
        first, _ = register(index, "kamu/foo", "kamu/bar")
        with pytest.raises(AliasTaken):
            index.registry.rename(first.id, DatasetAlias.parse("kamu/Bar"))
        assert index.registry.get(DatasetRef(id=first.id)) == first

    def test_a_forgotten_dataset_is_gone_with_blocks_and_head(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        head = index.refs.head(created.id)
        index.registry.forget(created.id)
        assert index.registry.find(DatasetRef(id=created.id)) is None
        assert index.blocks.find(created.id, head) is None
        with pytest.raises(DatasetNotFound):
            index.refs.head(created.id)
        assert len(index.refs.moves(after=0)) == 1
        register(index, "kamu/foo")

    def test_a_dataset_is_shown_to_everybody_or_hidden_again(self, index: Index) -> None:
        [created] = register(index, "kamu/foo")
        for visibility in (Visibility.PUBLIC, Visibility.PRIVATE):
            index.registry.set_visibility(created.id, visibility)
            found = index.registry.get(DatasetRef(id=created.id))
            assert found == replace(created, visibility=visibility)

    def test_changing_an_absent_dataset_is_refused(self, index: Index) -> None:
        with pytest.raises(DatasetNotFound):
            index.registry.set_visibility(some_id(), Visibility.PUBLIC)
        with pytest.raises(DatasetNotFound):
            index.registry.rename(some_id(), DatasetAlias.parse("kamu/foo"))
        with pytest.raises(DatasetNotFound):
            index.registry.forget(some_id())
        with pytest.raises(DatasetNotFound):
            index.registry.set_inputs(some_id(), [])

    def test_dependants_are_those_whose_inputs_name_a_dataset(self, index: Index) -> None:
        one, two, three = register(index, "kamu/one", "kamu/two", "kamu/three")
        elsewhere = some_id("on another node")
        index.registry.set_inputs(two.id, [one.id, elsewhere, one.id])
        index.registry.set_inputs(three.id, [one.id, two.id])
        assert index.registry.dependants(one.id) == sorted([two.id, three.id])
        assert index.registry.dependants(elsewhere) == [two.id]
        either = index.registry.dependants_of_any([one.id, elsewhere, some_id("nobody")])
        assert set(either) == {two.id, three.id}
        assert not index.registry.dependants_of_any([])

    def test_inputs_are_replaced_as_a_whole_and_go_with_the_dataset(self, index: Index) -> None:
        one, two, three = register(index, "kamu/one", "kamu/two", "kamu/three")
        index.registry.set_inputs(three.id, [one.id])
        index.registry.set_inputs(three.id, [two.id])
        assert index.registry.dependants(one.id) == []
        index.registry.forget(three.id)
        assert index.registry.dependants(two.id) == []
