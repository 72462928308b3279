"""Cases of files that are published, by number: what is proposed, and what a post stores."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import openpyxl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from refusals import refusing

from odf_node.cli.datasets.projection import definition_body, definition_options
from odf_node.client.nodes.node_api import NodeApi, RequestConflict
from odf_node.client.uses.new_dataset import kept_if_filled, new_dataset
from odf_node.proposal.headers import NoRecords
from odf_node.proposal.options import chosen
from odf_node.proposal.proposal import Proposal, propose
from odf_node.proposal.sample import sample_of_file
from odf_node.proposal.wire import to_manifest
from odf_protocol.instant import Instant
from odf_workers.stages.preview import preview

CASES = Path(__file__).parents[1] / "vectors" / "cases"
NOW = Instant.parse("2050-01-01T00:00:00Z")


def proposed(name: str, **options: Any) -> tuple[Proposal, Path]:
    """The proposal for the file of a case."""
    file = CASES / name
    return propose(sample_of_file(file), chosen(options), now=NOW), file


def stored(proposal: Proposal, file: Path) -> list[dict[str, Any]]:
    """The rows that a post of a file stores, without system columns."""
    found = preview(proposal.snapshot(), file, now=NOW)
    assert found is not None
    names = [one.name for one in proposal.columns]
    rows: pa.Table = found.stored.select(names)
    return list(rows.to_pylist())


def kinds(proposal: Proposal) -> dict[str, str]:
    return {one.name: one.kind for one in proposal.columns}


def test_case_01_backslashes_stay() -> None:
    proposal, file = proposed("01-csv-backslash/paths.csv")
    assert [row["path"] for row in stored(proposal, file)] == [
        "C:\\temp\\new, old", "D:\\x", "E:\\y",
    ]  # fmt: skip
    shown = next(one.values for one in proposal.columns if one.name == "path")
    assert shown == ("C:\\temp\\new, old", "D:\\x", "E:\\y")


def test_case_03_a_key_is_judged_on_the_times_that_are_stored() -> None:
    proposal, file = proposed("03-publish-key-microseconds/log.csv")
    assert proposal.key == ()
    assert len(stored(proposal, file)) == 2
    assert any("finer than milliseconds" in note for note in proposal.notes)


def test_case_04a_a_header_may_have_a_blank_name() -> None:
    proposal, file = proposed("04a-header-blank-name/frame.csv")
    assert kinds(proposal) == {"column_1": "Int64", "id": "Int64", "name": "String"}
    assert len(stored(proposal, file)) == 2
    assert any("column 1 is called ''" in note for note in proposal.notes)


def test_case_04b_a_header_may_have_years() -> None:
    proposal, file = proposed("04b-header-years/years.csv")
    assert stored(proposal, file) == [
        {"country": "NO", "2020": 5, "2021": 6}, {"country": "SE", "2020": 7, "2021": 8},
    ]  # fmt: skip
    bare, _ = proposed("04b-header-years/years.csv", header=False)
    assert list(kinds(bare)) == ["column_1", "column_2", "column_3"]


def test_case_09_text_of_json_stays_text() -> None:
    proposal, file = proposed("09-json-text-code/1.ndjson")
    assert kinds(proposal) == {"fips": "String", "v": "Int64"}
    assert stored(proposal, file)[0] == {"fips": "10115", "v": 1}
    typed, _ = proposed("09-json-text-code/1.ndjson", types={"fips": "Int64"})
    assert kinds(typed)["fips"] == "Int64"


def test_case_11_a_time_is_no_key_without_a_word() -> None:
    for name in ("A.csv", "B.csv"):
        proposal, _ = proposed(f"11-guessed-key-one-station/{name}")
        assert (proposal.key, type(proposal.merge).__name__) == ((), "MergeStrategyAppend")


def test_case_12_a_title_is_left_out_and_told() -> None:
    proposal, file = proposed("12-title-line/t.csv")
    assert len(stored(proposal, file)) == 3
    assert list(kinds(proposal)) == ["id", "gestore", "nome", "lat", "lon"]
    assert any("Estratto del 2025-01-06" in note for note in proposal.notes)


def test_case_13_a_repeated_header_is_left_out_and_told() -> None:
    proposal, file = proposed("13-repeated-header/r.csv")
    assert kinds(proposal) == {"id": "Int64", "day": "Date", "v": "Int64"}
    assert [row["v"] for row in stored(proposal, file)] == [3, 4, 5]
    assert any("line 4" in note for note in proposal.notes)


@pytest.mark.parametrize("name", ["20-json-empty-object", "33-publish-leftover"])
def test_cases_20_and_33_empty_objects_are_kept_as_json(name: str) -> None:
    proposal, file = proposed(f"{name}/eo.ndjson")
    assert "JSON" in kinds(proposal).values()
    assert "{}" in stored(proposal, file)[0].values()
    assert any("so JSON as text" in note for note in proposal.notes)


def test_case_21_a_word_is_null_in_columns_of_numbers_only() -> None:
    proposal, file = proposed("21-na-namibia/c.csv")
    rows = stored(proposal, file)
    assert [row["code"] for row in rows] == ["NA", "NO", "SE"]
    assert [row["pop"] for row in rows] == [2500000, 5400000, None]
    everywhere, _ = proposed("21-na-namibia/c.csv", null=["NA"])
    assert stored(everywhere, file)[0]["code"] is None


def test_case_21_a_column_of_such_words_alone_keeps_them(tmp_path: Path) -> None:
    """They may be names of people; a number or a truth value in the column shows otherwise."""
    file = tmp_path / "people.csv"
    file.write_text("last,first,ok\nNull,Jane,true\nNaN,Bob,NA\nNone,Eve,false\n")
    proposal = propose(sample_of_file(file), now=NOW)
    rows = stored(proposal, file)
    assert [row["last"] for row in rows] == ["Null", "NaN", "None"]
    assert [row["ok"] for row in rows] == [True, None, False]


def test_features_are_geojson_by_the_ending_json_too(tmp_path: Path) -> None:
    file = tmp_path / "places.json"
    lost = {"type": "Feature", "id": "a", "properties": None, "geometry": None}
    found = {**lost, "id": "b", "geometry": {"type": "Point", "coordinates": [1, 2, 3]}}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [lost, found]}))
    proposal = propose(sample_of_file(file), now=NOW)
    assert proposal.format == "GeoJson"
    assert [row["id"] for row in stored(proposal, file)] == ["a", "b"]


def test_case_24_numbers_that_a_float_does_not_keep_stay_text() -> None:
    proposal, file = proposed("24-decimal-digits/p.csv")
    assert [row["price"] for row in stored(proposal, file)] == ["0.1", "12345678901234567.89"]
    assert any("more digits" in note for note in proposal.notes)
    exact, _ = proposed("24-decimal-digits/p.csv", types=["price=Decimal(38,2)"])
    assert str(stored(exact, file)[1]["price"]) == "12345678901234567.89"


def test_case_25_long_integers_are_decimals() -> None:
    proposal, file = proposed("25-json-long-integers/b.json")
    assert [int(row["id"]) for row in stored(proposal, file)] == [
        12345678901234567890, 12345678901234567891,
    ]  # fmt: skip


def test_case_26_a_line_separator_ends_no_line() -> None:
    proposal, file = proposed("26-ndjson-line-separator/l.ndjson")
    assert stored(proposal, file)[0]["s"] == "a\u2028b"


def test_case_27_cells_are_as_long_as_the_node_takes_them() -> None:
    proposal, file = proposed("27-csv-large-cell/wkt.csv")
    assert len(stored(proposal, file)[0]["note"]) > 131_072


def test_case_34_a_workbook_is_looked_at_and_stored(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in [["code", "day", "n"], ["007", date(2025, 1, 1), 1.5], ["010", None, 2]]:
        book.active.append(row)
    book.save(tmp_path / "book.xlsx")
    proposal, file = proposed(str(tmp_path / "book.xlsx"))
    assert kinds(proposal) == {"code": "String", "day": "Date", "n": "Float64"}
    assert stored(proposal, file) == [
        {"code": "007", "day": date(2025, 1, 1), "n": 1.5}, {"code": "010", "day": None, "n": 2.0},
    ]  # fmt: skip


def test_case_35_a_byte_order_mark_tells_the_encoding() -> None:
    proposal, file = proposed("35-utf16-hint/u16.csv")
    assert stored(proposal, file)[0]["name"] == "Ærø"


def test_case_36_a_line_after_the_rows_is_asked_about() -> None:
    proposal, file = proposed("36-footer-hint/f.csv")
    with refusing("QuestionOpen", match=r"line 6, 'Source: met office'; --footer 1"):
        proposal.check_decided()
    assert len(stored(proposal, file)) == 3
    decided, _ = proposed("36-footer-hint/f.csv", footer=1)
    decided.check_decided()
    apart, _ = proposed("36-footer-hint/f.csv", on_bad_rows="quarantine")
    assert any("line 6" in note for note in apart.notes)


def test_a_line_among_the_rows_that_does_not_fit_is_shown_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("a,b\n1,2\nnote\n3,4\n")
    with pytest.raises(NoRecords, match=r"line 3 of odd\.csv.*'note'.*--on-bad-rows quarantine"):
        propose(sample_of_file(file))


def test_case_38_an_option_of_columns_may_be_given_twice() -> None:
    import click

    @click.command()
    @definition_options
    def command(**given: Any) -> None:
        body = definition_body(store=None, uuid=None, **given)
        click.echo(f"{body['secondaryIndices']} {body.get('primaryKey')}")

    done = CliRunner().invoke(command, ["--index", "a", "--index", "b,c"])
    assert done.output.strip() == "['a', 'b', 'c'] None"
    done = CliRunner().invoke(command, ["--index", "a", "--primary-key", ""])
    assert done.output.strip() == "['a'] []"


# --- case 33: a publication that fails leaves nothing, and its repeat works -------------------


def answered(status: int, body: dict[str, str]) -> httpx.Response:
    content = b"" if status == 204 else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))


class Node:
    """A node that has room for one dataset, and answers posts with a status."""

    def __init__(self, proposal: Proposal, status: int, *, deletes: bool = True) -> None:
        self.status, self.deletes = status, deletes
        self.has_dataset = False
        self.calls: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(f"{request.method} {request.url.path}")
        place = {"url": "http://node/leftover", "alias": "leftover", "head": "f16200"}
        if request.method == "DELETE":
            if not self.deletes:
                raise httpx.ConnectError("gone")
            self.has_dataset = False
            return answered(204, {})
        if request.url.path == "/datasets":
            if self.has_dataset:
                body = {"title": "another dataset is called leftover already", "alias": "leftover"}
                return answered(409, body)
            self.has_dataset = True
            return answered(201, place)
        return answered(self.status, {"title": "no"})


@pytest.mark.parametrize(
    ("status", "error"), [(400, "RowsNotTaken"), (500, "RowsLost"), (507, "RowsLost")]
)
def test_case_33_a_failed_publication_leaves_nothing(status: int, error: str) -> None:
    proposal, file = proposed("01-csv-backslash/paths.csv")
    node = Node(proposal, status)
    with httpx.Client(transport=httpx.MockTransport(node)) as http:
        for _ in range(2):  # the repeat is answered in the same way
            made = new_dataset(
                http, "http://node/", None, to_manifest(proposal, file.name).encode(),
                proposal.snapshot(), visibility="private",
            )  # fmt: skip
            api = NodeApi(made.base, None, http=http)
            with refusing(error, match="nothing was published"), kept_if_filled(made, api):
                api.ingest(lambda: [b""], media_type="text/csv")
            assert not node.has_dataset
    assert "DELETE /leftover" in node.calls


def test_case_33_a_dataset_that_could_not_be_deleted_is_named() -> None:
    proposal, _ = proposed("01-csv-backslash/paths.csv")
    node = Node(proposal, 500, deletes=False)
    with httpx.Client(transport=httpx.MockTransport(node)) as http:
        made = new_dataset(
            http, "http://node/", None, b"", proposal.snapshot(), visibility="private"
        )
        api = NodeApi(made.base, None, http=http)
        with refusing("RowsLost", match="goes on with it"), kept_if_filled(made, api):
            api.ingest(lambda: [b""], media_type="text/csv")
        way = "ingest FILE http://node/leftover` adds rows"  # another dataset, as far as one sees
        with pytest.raises(RequestConflict, match=way):
            new_dataset(http, "http://node/", None, b"", proposal.snapshot(), visibility="private")
