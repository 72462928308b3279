"""`odf-node verify --heal`: a folder gets back from others what it had given them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chains import make_dataset
from click.testing import CliRunner
from service import serving
from static_files import answering, send

from odf_node.cli.main import main
from odf_node.client.nodes.remotes import MAX_PUSHED, Location, note_remotes, remotes_of
from odf_storage.stores.objects.layout import KIND_FOLDERS

FOLDERS = sorted(KIND_FOLDERS.values())


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("node")) as service:
        yield service


def run(config: Path, *words: object, code: int = 0, **env: str):
    given = {"ODF_NODE_CONFIG": str(config), "ODF_NODE_TOKEN": "", **env}
    done = CliRunner().invoke(main, [str(word) for word in words], env=given)
    assert done.exit_code == code, f"{done.exit_code}\n{done.stdout}\n{done.stderr}"
    return done


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        f"{part}/{path.name}": path.read_bytes()
        for part in FOLDERS
        if (folder / part).is_dir()
        for path in (folder / part).iterdir()
        if not path.name.startswith(".")
    }


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def slices(folder: Path) -> list[Path]:
    return sorted((folder / "data").iterdir())


def pushed(tmp_path: Path, *targets: object, key: int) -> Path:
    mine = make_dataset(tmp_path / "mine", rows=[3, 4, 5], key=key)
    for target in targets:
        run(tmp_path / "config", "push", mine.folder, target)
    return Path(mine.folder)


def test_what_is_damaged_or_missing_comes_back_from_the_node_it_was_pushed_to(node, tmp_path):
    config, token = tmp_path / "config", node.token()
    run(config, "repo", "add", "node", "odf+" + node.url, "--token", token)
    mine = pushed(tmp_path, "node/healing", key=31)
    whole = files_of(mine)
    flip(slices(mine)[0])
    slices(mine)[1].unlink()
    blocks = sorted((mine / "blocks").iterdir())
    flip(blocks[0])
    blocks[1].unlink()
    run(config, "verify", mine, code=6)
    told = json.loads(run(config, "verify", mine, "--heal", "--json").stdout)
    assert told["ok"] is True
    assert {each["healedFrom"] for each in told["healed"]} == {f"odf+{node.url}/healing/"}
    assert len(told["healed"]) == 4
    assert files_of(mine) == whole
    assert "healed" not in run(config, "verify", mine, "--heal").stdout


def test_every_place_it_was_pushed_to_is_asked_until_one_has_it_whole(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    mine = pushed(tmp_path, first, second, key=32)
    whole, name = files_of(mine), slices(mine)[0].name
    assert remotes_of(mine).copies == [str(second), str(first)]
    flip(mine / "data" / name)
    flip(second / "data" / name)
    done = run(tmp_path / "config", "verify", mine, "--heal")
    assert f"healed: data {name} from {first}" in done.stdout
    assert files_of(mine) == whole


def test_wrong_bytes_of_a_place_change_nothing_and_are_told(tmp_path):
    copy = tmp_path / "copy"
    mine = pushed(tmp_path, copy, key=33)
    name = slices(mine)[0].name
    flip(mine / "data" / name)
    damaged = files_of(mine)
    (copy / "data" / name).write_bytes(bytes((copy / "data" / name).stat().st_size))
    done = run(tmp_path / "config", "verify", mine, "--heal", code=6)
    assert f"not healed: data {name} ({copy}: " in done.stdout
    assert files_of(mine) == damaged


def test_a_place_that_is_away_leaves_the_others_to_heal(tmp_path):
    copy = tmp_path / "copy"
    mine = pushed(tmp_path, copy, key=34)
    note_remotes(mine, push=Location.parse("odf+http://127.0.0.1:1/gone"))
    slices(mine)[0].unlink()
    done = run(tmp_path / "config", "verify", mine, "--heal")
    assert f"from {copy}" in done.stdout


def test_the_places_that_are_remembered_are_few_and_hold_no_secret(tmp_path):
    for number in range(MAX_PUSHED + 3):
        note_remotes(tmp_path, push=Location.parse(f"odf+http://node.example/d{number}"))
    note_remotes(tmp_path, push=Location.parse("odf+http://node.example/d5"))
    known = remotes_of(tmp_path)
    assert known.push == "odf+http://node.example/d5/"
    assert len(known.pushed) == MAX_PUSHED
    assert known.pushed[:2] == [f"odf+http://node.example/d{n}/" for n in (5, MAX_PUSHED + 2)]


def test_a_token_goes_to_its_own_node_and_to_no_other_place_that_is_asked(tmp_path):
    heard: dict[str, set[str | None]] = {"own": set(), "other": set()}

    def listening(name):
        def listen(handler):
            heard[name].add(handler.headers.get("authorization"))
            send(handler, 404)

        return listen

    mine = pushed(tmp_path, key=35)
    slices(mine)[0].unlink()
    config = tmp_path / "config"
    with answering(listening("own")) as own, answering(listening("other")) as other:
        note_remotes(mine, push=Location.parse("odf+" + own.url + "a/"))
        note_remotes(mine, push=Location.parse("odf+" + other.url + "a/"))
        run(config, "verify", mine, "--heal", "--token", "given", code=2)
        assert heard == {"own": set(), "other": set()}
        run(config, "repo", "add", "own", own.url, "--token", "secret")
        run(config, "verify", mine, "--heal", code=6)
    assert heard == {"own": {"Bearer secret"}, "other": {None}}


def test_a_node_is_not_healed_from_here(tmp_path):
    run(tmp_path, "verify", "http://127.0.0.1:1/x", "--heal", code=2)
    run(tmp_path, "verify", tmp_path, "--heal", "--replay", code=2)
