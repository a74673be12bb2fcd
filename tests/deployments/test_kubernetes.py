"""The Kubernetes manifests, as far as they can be checked without a cluster: what Kustomize builds fits together."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.deployments.service import server_environment
from leadline.flows.prefect.server import RETENTION
from leadline.plugins.ops.telemetry.families import FLOW_RUNS
from leadline.plugins.ops.telemetry.figures import _STATES
from tests.support.docs.commands import command_exists

FOLDER = Path(__file__).parents[2] / "deployments" / "kubernetes"
ROOMS = ("evaluators", "tasks", "flows", "plugins", "leadline", "deployments")
OF_LIBRARIES = re.compile(r"(AWS|HF)_[A-Z_]+|XDG_STATE_HOME|POSTGRES_PASSWORD|PGDATA|REDISCLI_AUTH")
OF_OUR_SCRIPTS = {"PREFECT_DATABASE_PASSWORD", "LEDGER_PASSWORD"}  # roles.sql

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """What the example builds, with its Secrets as the example files have them."""
    return build(str(tmp_path_factory.mktemp("kubernetes")), "example")


@cache
def build(folder: str, overlay: str) -> list[Manifest]:
    """Return the manifests that Kustomize makes of an overlay; skip the test where it is not installed."""
    kubectl, kustomize = shutil.which("kubectl"), shutil.which("kustomize")
    if not kubectl and not kustomize:
        pytest.skip("neither kubectl nor kustomize is installed")
    copy = Path(folder) / "kubernetes"
    shutil.copytree(FOLDER, copy, dirs_exist_ok=True)
    for file in copy.rglob("*.env.example"):
        shutil.copy(file, file.with_suffix(""))
    command = [kubectl, "kustomize"] if kubectl else [kustomize or "", "build"]
    done = subprocess.run([*command, str(copy / overlay)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def of_kind(manifests: list[Manifest], *kinds: str) -> Iterator[Manifest]:
    return (manifest for manifest in manifests if manifest["kind"] in kinds)


def named(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the manifests of a kind by their name without the hash that Kustomize adds."""
    found = of_kind(manifests, kind)
    return {re.sub(r"-[a-z0-9]{10}$", "", manifest["metadata"]["name"]): manifest for manifest in found}


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return the template of each pod by the name of what makes it."""
    return {
        manifest["metadata"]["name"]: manifest["spec"]["template"]
        for manifest in of_kind(manifests, "Deployment", "StatefulSet", "Job")
    }


def container(pod: Manifest) -> Manifest:
    [only] = pod["spec"]["containers"]
    return dict(only)


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Return whether a selector, of a Service or with matchLabels and matchExpressions, takes these labels."""
    wanted = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        rule["operator"] == "In" and labels.get(rule["key"]) in rule["values"]
        for rule in selector.get("matchExpressions", [])
    )


def labels_of(manifests: list[Manifest]) -> dict[str, dict[str, str]]:
    return {name: pod["metadata"]["labels"] for name, pod in pods(manifests).items()}


def test_there_is_all_that_the_service_consists_of(example: list[Manifest]) -> None:
    assert set(pods(example)) == {
        *("server", "deploy", "webhook", "reports", "notify", "telemetry", "weights", "postgres", "redis"),
        *("worker-flows", "worker-cpu", "worker-judge", "worker-gpu"),
    }
    base = {manifest["metadata"]["name"] for manifest in of_kind(example, "Namespace")}
    assert base == {"leadline"}
    assert all(
        manifest["metadata"].get("namespace") == "leadline"
        for manifest in example
        if manifest["kind"] not in ("Namespace",)
    )


def test_the_base_builds_alone_and_every_part_is_in_the_example(tmp_path: Path) -> None:
    assert {"server", "deploy", "worker-flows", "worker-cpu", "worker-judge"} == set(pods(build(str(tmp_path), "base")))
    parts = {folder.parent.name for folder in FOLDER.glob("*/kustomization.yaml")}
    assert parts - {"base", "pods", "example", "autoscaling"} == {
        part.removeprefix("../")
        for part in yaml.safe_load((FOLDER / "example" / "kustomization.yaml").read_text())["components"]
    }


def test_workers_are_scaled_by_metrics_that_exist(tmp_path: Path) -> None:
    overlay = tmp_path / "kubernetes" / "scaled"
    overlay.mkdir(parents=True)
    parts = {"namespace": "leadline", "resources": ["../example"], "components": ["../autoscaling"]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    scaled = build(str(tmp_path), "scaled")
    states = set(_STATES)
    for target in of_kind(scaled, "ScaledObject"):
        name = target["spec"]["scaleTargetRef"]["name"]
        assert target["metadata"]["namespace"] == "leadline"
        assert target["spec"]["minReplicaCount"] >= 1
        assert "replicas" not in named(scaled, "Deployment")[name]["spec"]
        [trigger] = target["spec"]["triggers"]
        query = trigger["metadata"]["query"]
        assert f'{FLOW_RUNS.name}{{pool="{name.removeprefix("worker-")}"' in query
        assert set(re.findall(r'state=~"([^"]+)"', query)[0].split("|")) == states
    assert FLOW_RUNS.labels == ("pool", "state")


def test_selectors_match_pods(example: list[Manifest]) -> None:
    labels = labels_of(example)
    for manifest in of_kind(example, "Deployment", "StatefulSet"):
        spec = manifest["spec"]
        assert selects(spec["selector"], spec["template"]["metadata"]["labels"]), manifest["metadata"]["name"]
    for manifest in of_kind(example, "Service"):
        name = manifest["metadata"]["name"]
        assert [pod for pod, own in labels.items() if selects(manifest["spec"]["selector"], own)] == [name]
    for manifest in of_kind(example, "PodDisruptionBudget"):
        name = manifest["metadata"]["name"]
        assert [pod for pod, own in labels.items() if selects(manifest["spec"]["selector"], own)] == [name]
        assert manifest["spec"]["maxUnavailable"] == 1
    budgets = {manifest["metadata"]["name"] for manifest in of_kind(example, "PodDisruptionBudget")}
    assert budgets == {name for name in labels if name.startswith("worker-")}


def test_ports_match(example: list[Manifest]) -> None:
    services = named(example, "Service")
    for name, service in services.items():
        declared = {port["name"]: port["containerPort"] for port in container(pods(example)[name])["ports"]}
        for port in service["spec"]["ports"]:
            assert declared[port["targetPort"]] == port["port"]
    for name, pod in pods(example).items():
        ports = {port["name"] for port in container(pod).get("ports", [])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container(pod).get(kind, {})
            assert probe.get("httpGet", {}).get("port") in ports | {None}, name
    for ingress in of_kind(example, "Ingress"):
        [hosts] = [entry["hosts"] for entry in ingress["spec"]["tls"]]
        for rule in ingress["spec"]["rules"]:
            assert rule["host"] in hosts
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                ports = {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
                assert backend["port"]["name"] in ports


def test_what_keeps_running_is_probed_and_what_runs_is_bounded(example: list[Manifest]) -> None:
    for manifest in of_kind(example, "Deployment", "StatefulSet"):
        probes = container(manifest["spec"]["template"])
        assert {"livenessProbe", "readinessProbe"} <= set(probes), manifest["metadata"]["name"]
    for name, pod in pods(example).items():
        resources = container(pod)["resources"]
        assert {"cpu", "memory"} <= set(resources["requests"]), name
        assert "memory" in resources["limits"], name
        for volume in pod["spec"].get("volumes", []):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], name


def test_pods_meet_the_restricted_standard(example: list[Manifest]) -> None:
    [namespace] = of_kind(example, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for name, pod in pods(example).items():
        spec, own = pod["spec"], container(pod)["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] != 0, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert own["allowPrivilegeEscalation"] is False, name
        assert own["readOnlyRootFilesystem"] is True, name
        assert own["capabilities"] == {"drop": ["ALL"]}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name  # the variables of a Service are not settings


def test_what_is_mounted_exists(example: list[Manifest]) -> None:
    claims = set(named(example, "PersistentVolumeClaim"))
    used = set()
    for name, pod in pods(example).items():
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        templates = {
            template["metadata"]["name"]
            for manifest in of_kind(example, "StatefulSet")
            if manifest["metadata"]["name"] == name
            for template in manifest["spec"]["volumeClaimTemplates"]
        }
        mounts = {mount["name"] for mount in container(pod)["volumeMounts"]}
        assert mounts == set(volumes) | templates, name
        used |= {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in volumes.values()
            if len(volume) > 1 and "persistentVolumeClaim" in volume
        }
    assert used == claims


def references(pod: Manifest) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and key (or "*") of each ConfigMap and Secret from which a pod takes variables or files."""
    for source in container(pod).get("envFrom", []):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if field in source:
                yield kind, source[field]["name"], "*"
    for variable in container(pod).get("env", []):
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if field in variable.get("valueFrom", {}):
                yield kind, variable["valueFrom"][field]["name"], variable["valueFrom"][field]["key"]
    for volume in pod["spec"].get("volumes", []):
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"], "*"


def test_every_key_that_is_used_exists_and_every_key_that_exists_is_used(example: list[Manifest]) -> None:
    there = {
        (manifest["kind"], manifest["metadata"]["name"], key)
        for manifest in of_kind(example, "ConfigMap", "Secret")
        for key in manifest["data"]
    }
    used = {reference for pod in pods(example).values() for reference in references(pod)}
    whole = {(kind, name) for kind, name, key in used if key == "*"}
    assert {(kind, name) for kind, name, _ in used} == {(kind, name) for kind, name, _ in there}
    single = {reference for reference in used if reference[2] != "*"}
    assert single <= there
    assert {key for key in single if key[:2] not in whole} == {key for key in there if key[:2] not in whole}


def test_a_secret_is_known_to_those_alone_who_need_it(example: list[Manifest]) -> None:
    known: dict[str, set[str]] = {}
    for name, pod in pods(example).items():
        for kind, reference, _ in references(pod):
            if kind == "Secret":
                known.setdefault(reference[:-11], set()).add(name)
    workers = {f"worker-{lane}" for lane in ("flows", "cpu", "gpu", "judge")}
    assert known == {
        "prefect-auth": {"server", "deploy", "webhook", "telemetry", "notify"} | workers,
        "server": {"server"},
        "ledger": {"telemetry"} | workers,
        "storage": workers | {"reports"},
        "storage-reader": {"telemetry", "notify"},
        "notify": {"notify"},
        "reports": {"reports"},
        "judges": {"worker-flows", "worker-judge"},
        "webhook": {"webhook"},
        "databases": {"postgres", "redis"},
    }


def variables(manifests: list[Manifest], pod: Manifest) -> dict[str, str]:
    """Return the variables of a pod, with those of its ConfigMaps; values from Secrets are "secret"."""
    maps = {manifest["metadata"]["name"]: manifest["data"] for manifest in of_kind(manifests, "ConfigMap")}
    found: dict[str, str] = {}
    for source in container(pod).get("envFrom", []):
        found |= maps[source["configMapRef"]["name"]] if "configMapRef" in source else {}
    return found | {each["name"]: each.get("value", "secret") for each in container(pod).get("env", [])}


def test_variables_are_settings_of_the_product(example: list[Manifest]) -> None:
    from prefect.settings.legacy import _get_valid_setting_names
    from prefect.settings.models.root import Settings

    root = FOLDER.parents[1]
    source = "".join(file.read_text() for room in ROOMS for file in (root / room).rglob("*.py"))
    own = set(re.findall(r"LEADLINE_[A-Z_]+", source))
    known = own | _get_valid_setting_names(Settings) | set(server_environment("", "")) | OF_OUR_SCRIPTS
    for name, pod in pods(example).items():
        for variable in variables(example, pod):
            assert variable in known or OF_LIBRARIES.fullmatch(variable), (name, variable)


def test_the_server_has_the_settings_of_the_service_as_processes(example: list[Manifest]) -> None:
    settings = server_environment("secret", "secret") | RETENTION
    there = variables(example, pods(example)["server"])
    assert settings == {name: there.get(name) for name in settings}
    assert there["PREFECT_UI_API_URL"] == "https://leadline.example.org/api"


def test_commands_exist_with_their_options(example: list[Manifest]) -> None:
    for pod in pods(example).values():
        if container(pod)["name"] == "leadline":
            command = container(pod)["command"]
            assert command[:3] == ["prefect", "server", "start"] or command_exists(command), command


def test_lanes_have_their_pools_and_a_gpu_is_asked_for_on_its_nodes(example: list[Manifest]) -> None:
    for name, pod in pods(example).items():
        if name.startswith("worker-"):
            command = container(pod)["command"]
            assert command[command.index("--pool") + 1] == name.removeprefix("worker-")
            assert pod["metadata"]["labels"]["leadline/lane"] == name.removeprefix("worker-")
            assert pod["spec"]["terminationGracePeriodSeconds"] >= 600
            assert container(pod)["workingDir"] == "/project"
    gpu = pods(example)["worker-gpu"]
    assert gpu["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert container(gpu)["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert container(gpu)["image"].endswith("-cuda")


def test_images_have_versions(example: list[Manifest]) -> None:
    for pod in pods(example).values():
        image = container(pod)["image"]
        assert re.search(r":[\w.-]+$", image), image
        assert not image.endswith(":latest")


def allowed(manifests: list[Manifest], source: str, target: str, port: int) -> bool:
    """Return whether policies let one pod out to another, and let the other one be reached by it."""
    labels = labels_of(manifests)
    policies = [manifest["spec"] for manifest in of_kind(manifests, "NetworkPolicy")]

    def opens(side: str, peers: str, own: str, other: str) -> bool:
        for policy in policies:
            if not selects(policy["podSelector"], labels[own]):
                continue
            for rule in policy.get(side, []):
                ports = {entry["port"] for entry in rule.get("ports", [])}
                to = rule.get(peers)
                meant = to is None or any(
                    "podSelector" in peer and selects(peer["podSelector"], labels[other]) for peer in to
                )
                if meant and port in ports:
                    return True
        return False

    return opens("egress", "to", source, target) and opens("ingress", "from", target, source)


def test_what_is_not_allowed_is_denied_and_what_is_needed_is_allowed(example: list[Manifest]) -> None:
    everything = named(example, "NetworkPolicy")["nothing-by-default"]["spec"]
    assert everything == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    targets = [
        ("server", 4200),
        ("postgres", 5432),
        ("redis", 6379),
        ("webhook", 8484),
        ("telemetry", 8485),
        ("reports", 8585),
    ]
    ways = {(a, b) for a in pods(example) for b, port in targets if a != b and allowed(example, a, b, port)}
    workers = [f"worker-{lane}" for lane in ("flows", "cpu", "gpu", "judge")]
    assert ways == {
        *((name, "server") for name in [*workers, "deploy", "webhook", "telemetry", "notify"]),
        *((name, "postgres") for name in [*workers, "server", "telemetry"]),
        ("server", "redis"),
    }


def test_no_secret_stands_in_the_files() -> None:
    for file in FOLDER.rglob("*.env.example"):
        for line in file.read_text().splitlines():
            value = line.partition("=")[2]
            assert line.startswith("#") or re.fullmatch(
                r"(postgresql|redis)\S*:PASSWORD@\S+|NAME(:PASSWORD)?|PASSWORD|KEY|SECRET", value
            ), f"{file.name}: {line}"
    assert not [file for file in FOLDER.rglob("*.yaml") if re.search(r"kind: Secret\b", file.read_text())]


def test_the_api_of_kubernetes_has_all_fields(example: list[Manifest], tmp_path: Path) -> None:
    own = Path(sys.prefix) / "tools" / "bin" / "kubernetes-validate"
    program = str(own) if own.exists() else shutil.which("kubernetes-validate")
    if not program:
        pytest.skip("kubernetes-validate is not installed (make lint-deployments)")
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(example))
    done = subprocess.run(
        [program, "--strict", "--quiet", "--kubernetes-version", "1.32", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
