"""Settings: each described, unknown ones refused, one example file that cannot fall behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from odf_node.app.service.settings import (
    FOREIGN,
    PREFIX,
    Settings,
    Tenancy,
    UnknownSetting,
    example_lines,
    load_settings,
    refuse_unknown,
)
from odf_node.storage.runtime.environment import InvalidSetting
from odf_node.workers.main import main as odf_worker
from odf_node.workers.settings import WorkerSettings
from odf_node.workers.settings import example_lines as example_lines_of_workers

ROOT = Path(__file__).parents[2]


def test_every_setting_says_what_it_means():
    for name, field in {**Settings.model_fields, **WorkerSettings.model_fields}.items():
        assert field.description, name


def test_a_setting_a_worker_cannot_take_is_told_in_one_line(monkeypatch):
    monkeypatch.setenv("ODF_NODE_SLICE_ROWS", "many")
    done = CliRunner().invoke(odf_worker, ["--once"])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: setting slice_rows (ODF_NODE_SLICE_ROWS): ")


def test_service_and_worker_look_for_the_same_folder():
    assert WorkerSettings().data == Settings().data


def test_the_example_file_lists_every_setting_with_its_default():
    """Made anew by: python tests/app/test_settings.py > settings.example.env"""
    assert (ROOT / "settings.example.env").read_text() == _example()


def test_settings_come_from_the_environment_and_flags_win(monkeypatch):
    monkeypatch.setenv("ODF_NODE_PORT", "9000")
    monkeypatch.setenv("ODF_NODE_TENANCY", "multi")
    assert load_settings().port == 9000
    assert load_settings(port=9001).port == 9001
    assert load_settings(port=None).tenancy is Tenancy.MULTI


def test_an_unknown_variable_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("ODF_NODE_MAX_BODY_BITES", "1")
    with pytest.raises(UnknownSetting, match="ODF_NODE_MAX_BODY_BITES"):
        load_settings()


def test_variables_of_the_worker_and_the_command_line_are_left_alone():
    shared = {PREFIX + name.upper() for name in Settings.model_fields}
    worker = {PREFIX + name.upper() for name in WorkerSettings.model_fields}
    assert worker - shared <= FOREIGN
    refuse_unknown(dict.fromkeys([*worker, "ODF_NODE_TOKEN", "PATH"], "1"))


@pytest.mark.parametrize(
    "given",
    [
        {"port": 70000},
        {"workers": -1},
        {"tenancy": "both"},
        {"ws_max_message_bytes": 16 * 1024},
        {"public_url": "example.org"},
        {"log_level": "loud"},
        {"no_such": 1},
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(given):
    with pytest.raises(InvalidSetting, match=next(iter(given))):
        load_settings(**given)


def test_errors_name_settings_that_there_are():
    named = re.compile(r'"(ODF_NODE_[A-Z_]+)"')
    paths = [path for room in ("app", "workers") for path in (ROOT / room).rglob("*.py")]
    told = {name for path in paths for name in named.findall(path.read_text())}
    assert len(told) > 10
    refuse_unknown(dict.fromkeys(told, "1"))


def test_settings_do_not_change_once_read():
    with pytest.raises(ValidationError):
        load_settings().port = 1


def test_a_public_address_ends_in_a_slash():
    assert load_settings(public_url="https://data.example").public_url == "https://data.example/"


def _example() -> str:
    workers = example_lines_of_workers(Settings.model_fields)
    return "\n".join([*example_lines(), "", "", *workers, ""])


if __name__ == "__main__":
    print(_example(), end="")
