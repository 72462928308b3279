"""What every `BlockIndex` promises. Subclasses give a fixture `index`."""

from __future__ import annotations

from chain_maker import entry, linked, long_chain, seed, some_id
from index_parts import Index

from odf_protocol.metadata.events import HashedBlock, SetDataSchema, SetInfo
from odf_protocol.multihash import Multihash
from odf_storage.stores.index.sql_blocks import SqlBlockIndex

ID = entry().id


def stored(index: Index, length: int) -> list[HashedBlock]:
    """A dataset with a chain of that many blocks, oldest first."""
    blocks = long_chain(ID, length)
    index.registry.create(entry(), blocks=blocks)
    return blocks


class BlockIndexContract:
    def test_a_block_comes_back_with_its_own_bytes(self, index: Index) -> None:
        blocks = stored(index, 3)
        assert index.blocks.find(ID, blocks[1].hash) == blocks[1]

    def test_blocks_belong_to_their_dataset(self, index: Index) -> None:
        blocks = stored(index, 1)
        assert index.blocks.find(some_id("other"), blocks[0].hash) is None
        assert index.blocks.ancestors(some_id("other"), blocks[0].hash) == []

    def test_the_dataset_of_a_block_is_found(self, index: Index) -> None:
        blocks = stored(index, 3)
        other = entry("kamu/other")
        index.registry.create(other, blocks=long_chain(other.id, 1))
        assert index.blocks.owner(blocks[1].hash) == ID
        assert index.blocks.owner(long_chain(other.id, 1)[0].hash) == other.id
        assert index.blocks.owner(Multihash.of(b"no block")) is None

    def test_blocks_that_set_a_schema_are_found_on_every_branch(self, index: Index) -> None:
        created = entry()
        first = linked(None, seed(created.id))
        schema, other = (
            linked(first, SetDataSchema(raw_arrow_schema=raw)) for raw in (b"one", b"two")
        )
        between = linked(schema, SetInfo(description="no schema"))
        index.registry.create(created, blocks=[first, schema, between])
        index.refs.move(created.id, expected=between.hash, new=other.hash, blocks=[other])
        found = list(index.blocks.schemas(created.id))
        assert {block.hash for block in found} == {schema.hash, other.hash}
        assert list(index.blocks.schemas(some_id("another"))) == []

    def test_ancestors_are_newest_first_and_begin_with_the_start(self, index: Index) -> None:
        blocks = stored(index, 5)
        assert list(index.blocks.ancestors(ID, blocks[3].hash)) == blocks[3::-1]

    def test_raw_blocks_are_those_of_the_ancestors(self, index: Index) -> None:
        blocks = stored(index, 5)
        named = [(block.hash, block.raw) for block in reversed(blocks)]
        assert list(index.blocks.raw(ID, blocks[4].hash)) == named
        assert list(index.blocks.raw(ID, blocks[4].hash, down_to=1, limit=2)) == named[:2]
        assert list(index.blocks.raw(ID, blocks[2].hash, limit=0)) == []

    def test_among_many_other_branches_the_one_asked_for_is_found(self, index: Index) -> None:
        blocks = stored(index, 3)
        head = blocks[-1].hash
        for number in range(40):
            other = [linked(blocks[0], SetInfo(description=f"way {number}"))]
            other.append(linked(other[0], SetInfo(description=f"further {number}")))
            index.refs.move(ID, expected=head, new=other[-1].hash, blocks=other)
            head = other[-1].hash
        assert list(index.blocks.ancestors(ID, blocks[2].hash)) == blocks[::-1]
        assert list(index.blocks.lineage(ID, head)) == [head, other[0].hash, blocks[0].hash]

    def test_ancestors_stop_after_the_limit(self, index: Index) -> None:
        blocks = stored(index, 5)
        assert list(index.blocks.ancestors(ID, blocks[4].hash, limit=2)) == blocks[:2:-1]
        assert list(index.blocks.ancestors(ID, blocks[4].hash, limit=0)) == []

    def test_ancestors_stop_below_a_sequence_number(self, index: Index) -> None:
        blocks = stored(index, 5)
        assert list(index.blocks.ancestors(ID, blocks[4].hash, down_to=3)) == blocks[:2:-1]
        assert list(index.blocks.ancestors(ID, blocks[1].hash, down_to=3)) == []

    def test_an_unknown_start_has_no_ancestors(self, index: Index) -> None:
        stored(index, 2)
        unknown = linked(None, SetInfo(description="nobody stored this"))
        assert list(index.blocks.ancestors(ID, unknown.hash)) == []
        assert list(index.blocks.lineage(ID, unknown.hash)) == []

    def test_of_several_branches_the_one_asked_for_is_followed(self, index: Index) -> None:
        blocks = stored(index, 4)
        branch = [linked(blocks[1], SetInfo(description="another way"))]
        branch.append(linked(branch[0], SetInfo(description="further")))
        head = blocks[-1].hash
        index.refs.move(ID, expected=head, new=branch[-1].hash, blocks=branch)
        assert list(index.blocks.ancestors(ID, branch[-1].hash)) == [*branch[::-1], *blocks[1::-1]]
        assert list(index.blocks.ancestors(ID, head)) == blocks[::-1]
        assert list(index.blocks.lineage(ID, branch[-1].hash, down_to=1)) == [
            branch[1].hash,
            branch[0].hash,
            blocks[1].hash,
        ]

    def test_a_lineage_is_complete_beyond_any_page(self, index: Index) -> None:
        blocks = stored(index, 23)
        hashes = [block.hash for block in reversed(blocks)]
        assert list(index.blocks.lineage(ID, blocks[-1].hash)) == hashes
        assert list(index.blocks.lineage(ID, blocks[-1].hash, down_to=20)) == hashes[:3]


class BlocksBehindContract:
    def test_blocks_behind_one_come_oldest_first_a_page_at_a_time(
        self, index: Index, reads: SqlBlockIndex
    ) -> None:
        blocks = stored(index, 9)
        head = blocks[-1].hash
        assert list(reads.behind(ID, None, head) or ()) == blocks
        assert list(reads.behind(ID, blocks[2].hash, head, limit=4) or ()) == blocks[3:7]
        assert list(reads.behind(ID, blocks[2].hash, blocks[4].hash) or ()) == blocks[3:5]
        assert reads.behind(ID, head, head) == []

    def test_nothing_is_behind_a_block_of_another_history(
        self, index: Index, reads: SqlBlockIndex
    ) -> None:
        blocks = stored(index, 4)
        other = [linked(blocks[1], SetInfo(description="another way"))]
        index.refs.move(ID, expected=blocks[-1].hash, new=other[0].hash, blocks=other)
        assert reads.behind(ID, blocks[3].hash, other[0].hash) is None
        assert reads.behind(ID, blocks[2].hash, other[0].hash) is None
        assert list(reads.behind(ID, blocks[1].hash, other[0].hash) or ()) == other
        assert list(reads.behind(ID, blocks[0].hash, blocks[3].hash) or ()) == blocks[1:]
        whole = [*blocks[:2], *other]
        assert list(reads.behind(ID, None, other[0].hash) or ()) == whole
        assert list(reads.behind(ID, None, other[0].hash, limit=2) or ()) == whole[:2]
        assert reads.behind(ID, Multihash.of(b"unknown"), other[0].hash) is None
        assert reads.behind(ID, None, Multihash.of(b"unknown")) is None
