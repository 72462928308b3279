"""Settings: each described, unknown ones refused, one example file that cannot fall behind."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import ValidationError
from refusals import refusing

from odf_node.client.nodes.home import VARIABLES as OF_CLIENT
from odf_node.service.setting_groups.words import Tenancy
from odf_node.service.settings import Settings, load_settings, warn_of_old_names
from odf_storage.runtime.environment import GONE, RENAMED, SharedSettings, example_lines, variables
from odf_workers.main import main as odf_worker
from odf_workers.settings import WorkerSettings
from odf_workers.settings import load_settings as load_settings_of_worker

ROOT = Path(__file__).parents[2]
OLD_NAMES = (Path(__file__).parent / "old_settings.txt").read_text().split()
"""Variables that service, worker and client had when all began with `ODF_NODE_`."""


def test_every_setting_says_what_it_means():
    for name, field in {**Settings.model_fields, **WorkerSettings.model_fields}.items():
        assert field.description, name


def test_a_setting_a_worker_cannot_take_is_told_in_one_line(monkeypatch):
    monkeypatch.setenv("ODF_WORKER_SLICE_ROWS", "many")
    done = CliRunner().invoke(odf_worker, ["--once"])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: setting slice_rows (ODF_WORKER_SLICE_ROWS): ")


def test_a_program_has_one_prefix_for_its_own_settings_and_one_for_those_that_all_share():
    assert {*SharedSettings.model_fields} == _names(Settings) & _names(WorkerSettings)
    assert {name.split("_")[1] for name in variables(Settings)} == {"NODE", "STORE"}
    assert {name.split("_")[1] for name in variables(WorkerSettings)} == {"WORKER", "STORE"}


def _names(kind):
    return {*variables(kind).values()}


def test_one_environment_sets_the_stores_of_both_programs(monkeypatch):
    monkeypatch.setenv("ODF_STORE_DATA", "/srv/odf")
    monkeypatch.setenv("ODF_NODE_PORT", "9000")
    monkeypatch.setenv("ODF_WORKER_LEASE_S", "2")
    service, worker = load_settings(), load_settings_of_worker({})
    assert service.data == worker.data == Path("/srv/odf")
    assert (service.port, worker.lease_s) == (9000, 2)


def test_the_example_file_lists_every_setting_with_its_default():
    """Made anew by: python tests/app/test_settings.py > settings.example.env"""
    assert (ROOT / "settings.example.env").read_text() == _example()


def test_settings_come_from_the_environment_and_flags_win(monkeypatch):
    monkeypatch.setenv("ODF_NODE_PORT", "9000")
    monkeypatch.setenv("ODF_NODE_TENANCY", "multi")
    assert load_settings().port == 9000
    assert load_settings(port=9001).port == 9001
    assert load_settings(port=None).tenancy is Tenancy.MULTI


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ODF_NODE_MAX_BODY_BITES", "ODF_NODE_MAX_BODY_BYTES"),
        ("ODF_NODE_LEASES_S", "ODF_WORKER_LEASE_S"),
        ("ODF_NODE_TOKENS", "ODF_NODE_TOKEN"),
        ("ODF_STORE_DATABSE_URL", "ODF_STORE_DATABASE_URL"),
        ("ODF_STORE_PORT", "ODF_NODE_PORT"),
    ],
)
def test_the_service_refuses_an_unknown_variable_and_names_the_one_that_was_meant(
    monkeypatch, name, meant
):
    monkeypatch.setenv(name, "1")
    with refusing("UnknownSetting", match=f"{name}; did you mean {meant}") as refused:
        load_settings()
    assert refused.value.facts == {"setting": name, "meant": meant}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ODF_WORKER_LEASES_S", "ODF_WORKER_LEASE_S"),
        ("ODF_WORKER_DATA", "ODF_STORE_DATA"),
        ("ODF_STORE_OBJECT_URL", "ODF_STORE_OBJECTS_URL"),
    ],
)
def test_a_worker_refuses_an_unknown_variable_and_names_the_one_that_was_meant(
    monkeypatch, name, meant
):
    monkeypatch.setenv(name, "1")
    done = CliRunner().invoke(odf_worker, ["--once"])
    assert done.exit_code == 1
    assert done.stderr == f"Error: there is no setting {name}; did you mean {meant}?\n"


def test_an_unknown_variable_that_resembles_no_other_is_refused(monkeypatch):
    monkeypatch.setenv("ODF_NODE_XYZZY", "1")
    with refusing("UnknownSetting", match=r"ODF_NODE_XYZZY; see settings\.example\.env"):
        load_settings()


def test_a_variable_in_small_letters_counts(monkeypatch):
    monkeypatch.setenv("odf_node_port", "9000")
    assert load_settings().port == 9000
    monkeypatch.setenv("odf_node_prot", "9000")
    with refusing("UnknownSetting", match="ODF_NODE_PORT"):
        load_settings()


def test_variables_of_the_other_program_and_the_command_line_are_left_alone(monkeypatch):
    for name in ("ODF_NODE_TOKEN", "ODF_NODE_URL", "ODF_NODE_CONFIG", "ODF_WORKER_OF_TOMORROW"):
        monkeypatch.setenv(name, "x")
    load_settings()
    monkeypatch.delenv("ODF_WORKER_OF_TOMORROW")
    monkeypatch.setenv("ODF_NODE_OF_TOMORROW", "x")
    load_settings_of_worker({})


def test_lists_and_tables_are_json(monkeypatch):
    monkeypatch.setenv("ODF_WORKER_ENGINES", '{"spark": "127.0.0.1:5544"}')
    monkeypatch.setenv("ODF_STORE_OBJECT_COPIES", '["file:///backup"]')
    read = load_settings_of_worker({})
    assert read.engines == {"spark": "127.0.0.1:5544"}
    assert read.object_copies == ("file:///backup",)
    monkeypatch.setenv("ODF_STORE_OBJECT_COPIES", "file:///backup")
    with refusing("InvalidSetting", match="OBJECT_COPIES is not JSON: it is written as"):
        load_settings_of_worker({})


# --- old names ------------------------------------------------------------------------------


def test_every_name_of_old_is_as_it_was_or_has_a_new_one():
    new = {*variables(Settings), *variables(WorkerSettings)}
    assert len(OLD_NAMES) == 147
    gone = {name for name in OLD_NAMES if name not in new | {*OF_CLIENT} | {*RENAMED}}
    assert gone <= {*GONE}
    assert {*RENAMED.values()} <= new


def test_a_setting_that_is_gone_says_what_took_its_place(monkeypatch):
    new = {*variables(Settings), *variables(WorkerSettings)}
    assert {*GONE} & new == set()
    for name, place in GONE.items():
        assert place == "" or place in new, name
        monkeypatch.setenv(name, "1")
        load = load_settings_of_worker if "_WORKER_" in name else lambda _: load_settings()
        with refusing("UnknownSetting", match=f"^the setting {name} is gone: ") as refused:
            load({})
        assert refused.value.facts["setting"] == name
        assert (place or "its value is fixed now; remove it") in refused.value.message
        monkeypatch.delenv(name)


def test_a_setting_is_understood_by_its_old_name(monkeypatch):
    monkeypatch.setenv("ODF_NODE_DATA", "/srv/odf")
    monkeypatch.setenv("ODF_NODE_LEASE_S", "2")
    assert load_settings().data == Path("/srv/odf")
    worker = load_settings_of_worker({})
    assert (worker.data, worker.lease_s) == (Path("/srv/odf"), 2)


@pytest.mark.parametrize("load", [load_settings, lambda: load_settings_of_worker({})])
def test_a_setting_under_its_old_and_its_new_name_is_refused(monkeypatch, load):
    monkeypatch.setenv("ODF_NODE_LEASE_S", "2")
    monkeypatch.setenv("ODF_WORKER_LEASE_S", "2")
    with refusing("SettingTwice", match="ODF_NODE_LEASE_S is the old name of ODF_WORKER_LEASE_S"):
        load()


def test_one_warning_lists_all_old_names(monkeypatch, caplog):
    monkeypatch.setenv("ODF_NODE_DATA", "/srv/odf")
    monkeypatch.setenv("ODF_NODE_LEASE_S", "2")
    monkeypatch.setenv("ODF_NODE_PORT", "9000")
    warn_of_old_names()
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.msg.fields == {
        "renamed": "ODF_NODE_DATA -> ODF_STORE_DATA, ODF_NODE_LEASE_S -> ODF_WORKER_LEASE_S"
    }


def test_new_names_are_no_reason_for_a_warning(monkeypatch, caplog):
    monkeypatch.setenv("ODF_STORE_DATA", "/srv/odf")
    warn_of_old_names()
    assert caplog.records == []


@pytest.mark.parametrize(
    "words",
    [
        ("odf-node", "serve", "--port", "0", "--workers", "0"),
        ("odf-worker", "--once"),
        ("odf-worker", "engine", "--engine", "datafusion", "--port", "0"),
    ],
)
def test_a_program_that_starts_with_an_old_name_says_so_once(tmp_path, words):
    """It ends at once: the folder that the old name gives is a file."""
    (tmp_path / "data").touch()
    old = {"ODF_NODE_DATA": str(tmp_path / "data"), "ODF_NODE_SCRATCH": str(tmp_path / "data")}
    command = [Path(sys.executable).parent / words[0], *words[1:]]
    done = subprocess.run(
        command, env={**os.environ, **old}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert done.stderr.count("settings have new names") == 1
    assert done.stderr.count("ODF_NODE_DATA -> ODF_STORE_DATA") == 1


# --- values ---------------------------------------------------------------------------------


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
    with refusing("InvalidSetting", match=next(iter(given))):
        load_settings(**given)


def test_errors_name_settings_that_there_are():
    named = re.compile(r'"(ODF_(?:NODE|STORE|WORKER)_[A-Z_]+)"')
    of_both = (*OF_CLIENT, *variables(WorkerSettings))
    of_query = ("ODF_NODE_QUERY_TEXT_BYTES",)  # its process refuses what is longer
    for room, kind, more in (("app", Settings, of_both), ("workers", WorkerSettings, of_query)):
        paths = (ROOT / room).rglob("*.py")
        told = {name for path in paths for name in named.findall(path.read_text())}
        assert len(told) > 10
        known = {*variables(kind), *more}
        assert told <= known


def test_settings_do_not_change_once_read():
    with pytest.raises(ValidationError):
        load_settings().port = 1


def test_a_public_address_ends_in_a_slash():
    assert load_settings(public_url="https://data.example").public_url == "https://data.example/"


def _example() -> str:
    sections = [
        example_lines(
            "Settings of the service and of workers. Every line is the default; uncomment what you "
            "change.",
            SharedSettings,
        ),
        example_lines("Settings of the service.", Settings),
        example_lines(
            "Settings of a worker; workers that a service starts have its environment.",
            WorkerSettings,
        ),
    ]
    return "\n\n\n".join("\n".join(section) for section in sections) + "\n"


if __name__ == "__main__":
    print(_example(), end="")
