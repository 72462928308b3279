"""`odf-node verify`: what it says of a folder, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chain_maker import parquet, slice_of, table
from click.testing import CliRunner
from damaged import PLAIN, DatasetMaker
from footers import deadly

from odf_node.cli.main import main
from odf_protocol.metadata.events import AddData
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKind

EVENTS = ["Seed", "SetDataSchema", "AddData", "AddData"]


@pytest.fixture
def made() -> DatasetMaker:
    return DatasetMaker().play(EVENTS)


def written(made: DatasetMaker, folder: Path) -> str:
    objects = FolderObjects(folder)
    for (kind, name), content in made.source.objects.items():
        path = folder / {"block": "blocks", "data": "data"}.get(kind.value, "checkpoints")
        path.mkdir(parents=True, exist_ok=True)
        (path / str(name)).write_bytes(content)
    objects.write_ref("head", made.source.head())
    return str(folder)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["verify", *words])
    return result.exit_code, result.stdout


def damaged(made: DatasetMaker, number: int) -> None:
    made.source.flip(ObjectKind.DATA, made.blocks[number].event.new_data.physical_hash)  # type: ignore[union-attr]


def test_a_sound_folder_is_valid_and_each_block_has_a_line(
    made: DatasetMaker, tmp_path: Path
) -> None:
    code, out = run(written(made, tmp_path / "ds"), "--verbose")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["#2", "#3", "valid:", "head"]
    assert "AddData: valid, 3 record(s)" in out


def test_a_damaged_slice_is_named_by_kind_block_and_file(
    made: DatasetMaker, tmp_path: Path
) -> None:
    damaged(made, 3)
    code, out = run(written(made, tmp_path / "ds"))
    assert code == 6
    assert out.startswith("DataDoesNotMatchMetadata, PhysicalHashMismatch: #3 ")
    assert str(made.blocks[3].hash) in out


def test_the_report_as_json_names_the_same(made: DatasetMaker, tmp_path: Path) -> None:
    damaged(made, 3)
    code, out = run(written(made, tmp_path / "ds"), "--json")
    report = json.loads(out)
    assert code == 6
    assert report["ok"] is False
    [problem] = report["problems"]
    assert problem["kind"] == "DataDoesNotMatchMetadata"
    assert problem["sequenceNumber"] == 3
    assert [block["objects"] for block in report["dataBlocks"]] == ["damaged", "valid"]


def test_less_is_looked_at_when_less_is_asked_for(made: DatasetMaker, tmp_path: Path) -> None:
    damaged(made, 3)
    folder = written(made, tmp_path / "ds")
    assert run(folder, "--metadata-only")[0] == 0
    assert run(folder, "--upto", str(made.blocks[2].hash))[0] == 0
    assert run(folder, "--after", str(made.blocks[2].hash), "--no-rows")[0] == 6
    assert run(folder, "--upto", str(made.source.put(ObjectKind.DATA, b"x")))[0] == 2


def test_retractions_are_compared_when_asked_for(made: DatasetMaker, tmp_path: Path) -> None:
    folder = written(made, tmp_path / "ds")
    code, out = run(folder, "--changelog")
    assert code == 0
    assert "note: RetractionUnfounded" not in out
    assert run(folder, "--changelog", "--metadata-only")[0] == 2


@pytest.mark.parametrize("options", [[], ["--changelog"]])
def test_a_slice_whose_footer_ends_other_readers_is_a_line_of_the_report(
    options: list[str], tmp_path: Path
) -> None:
    made, rows = DatasetMaker().play(EVENTS[:2]), table(0, 3)
    content = deadly(parquet(rows, **PLAIN), "text")
    made.source.put(ObjectKind.DATA, content)
    made.add(AddData(new_data=slice_of(content, rows, 0)))
    folder = written(made, tmp_path / "ds")
    run_it = "import sys; from odf_node.cli.main import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", run_it, "verify", folder, *options]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 6, done.stderr
    assert done.stdout.startswith("DataDoesNotMatchMetadata, UnreadableSlice: #2 "), done.stdout
    assert "cannot be read" in done.stdout
    assert "Traceback" not in done.stderr
