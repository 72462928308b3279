"""The chart, held to the tools that read it, without a cluster."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import yaml
from tests.architecture.test_deployment import ROOT, foreign_settings, run

from odf_storage.datasets.job_payloads.query_job import KIND as QUERY_JOB

CHART = ROOT / "helm" / "odf-node"
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
MONITORED = {
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {
        "clients": [{"namespaceSelector": {}}],
        "metrics": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
    },
}
GOOD = [{}, EVERYTHING, KEDA, EXECUTORS, SCALED, QUERIES, MONITORED]
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
    {"monitoring": {"enabled": True, "interval": "often"}},
    {"worker": {"keda": {"waitSeconds": 0}}},
]


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


def objections(made: list[dict[str, Any]]) -> list[str]:
    """What the schemas of Kubernetes have against resources; each is large, and read once."""
    import kubernetes_validate.utils as judge

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "schema_contents", read_once(judge.schema_contents))
        for each in made:
            try:
                judge.validate(each, judge.latest_version(), strict=True)
            except judge.ValidationError as bad:
                found.append(f"{judge.kn(each)}: {bad.json_path}: {bad.message}")
    return found


@cache
def read_once(read: Callable[[str, str], Any]) -> Callable[[str, str], Any]:
    return cache(read)


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
    helmed: dict[str, Any], variant: int
) -> None:
    made = resources(helmed["rendered"][variant])
    assert objections(made) == []
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


def test_workers_can_follow_the_length_of_the_queue_and_the_age_of_its_oldest_job(
    helmed: dict[str, Any],
) -> None:
    made = {item["kind"]: item for item in resources(helmed["rendered"][2])}
    length, age = (each["metadata"] for each in made["ScaledObject"]["spec"]["triggers"])
    for trigger in (length, age):
        assert trigger["connectionFromEnv"] == "ODF_STORE_DATABASE_URL"
    assert (length["targetQueryValue"], age["targetQueryValue"]) == ("5", "60")
    assert "min(submitted_at)" in age["query"]
    workers = [
        item
        for item in resources(helmed["rendered"][2])
        if item["kind"] == "Deployment" and item["metadata"]["name"] == "test-odf-worker"
    ]
    assert "replicas" not in workers[0]["spec"]


def test_prometheus_finds_services_workers_and_rules_and_grafana_the_dashboard(
    helmed: dict[str, Any],
) -> None:
    rendered = helmed["rendered"][GOOD.index(MONITORED)]
    service = named(rendered, "Service", "test-odf-node")
    monitor = named(rendered, "ServiceMonitor", "test-odf-node")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert selects(monitor["spec"]["selector"], service["metadata"]["labels"])
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    of_workers = named(rendered, "PodMonitor", "test-odf-worker")["spec"]
    worker = named(rendered, "Deployment", "test-odf-worker")["spec"]["template"]
    assert selects(of_workers["selector"], worker["metadata"]["labels"])
    (container,) = worker["spec"]["containers"]
    ports = [port["name"] for port in container["ports"]]
    assert [each["port"] for each in of_workers["podMetricsEndpoints"]] == ports
    for each in (monitor["spec"], of_workers):  # the rules expect jobs that begin with odf
        assert worker["metadata"]["labels"][each["jobLabel"]] == "odf-node"
    rules = yaml.safe_load((CHART / "observing" / "alerts.yaml").read_text())
    assert named(rendered, "PrometheusRule", "test-odf-node")["spec"] == rules
    shown = named(rendered, "ConfigMap", "test-odf-dashboard")
    assert json.loads(shown["data"]["odf-node.json"])["panels"]
    policy = named(rendered, "NetworkPolicy", "test-odf-node")["spec"]
    assert MONITORED["networkPolicy"]["metrics"] in [rule["from"] for rule in policy["ingress"]]
    assert not {"ServiceMonitor", "PrometheusRule"} & {
        item["kind"] for item in resources(helmed["rendered"][0])
    }


def test_workers_for_queries_take_only_these_and_leave_them_to_nobody_else(
    helmed: dict[str, Any],
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
    assert objections([queries, others]) == []
    queries["spec"]["template"]["spec"]["containers"][0]["port"] = 1
    assert ["'port' was unexpected" in each for each in objections([queries])] == [True]


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
