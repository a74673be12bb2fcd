"""The container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from leadline.deployments.postgres import binaries
from leadline.deployments.service import server_environment
from tests.support.docs.commands import command_exists
from tests.support.processes.http_servers import QuietHandler, running
from tests.support.processes.ports import free_port
from tests.support.stores.postgres import serving_postgres

FOLDER = Path(__file__).parents[2] / "deployments"
ROLES = FOLDER / "kubernetes" / "databases" / "roles.sql"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if str(service["image"]).startswith("${LEADLINE_IMAGE")}
VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


def test_there_is_all_that_the_service_consists_of() -> None:
    assert {"postgres", "redis", "storage", "server", "deploy", "webhook"} <= set(SERVICES)
    assert {f"worker-{pool}" for pool in ("flows", "cpu", "gpu", "judge")} <= set(SERVICES)


@pytest.mark.parametrize("name", OURS)
def test_commands_exist_with_their_options(name: str) -> None:
    command = OURS[name].get("entrypoint", []) + OURS[name]["command"]
    assert command[:3] == ["prefect", "server", "start"] or command_exists(command)


@pytest.mark.parametrize("name", SERVICES)
def test_what_keeps_running_tells_its_health_and_what_it_waits_for_exists(name: str) -> None:
    service = SERVICES[name]
    if "restart" in service and service["restart"] != "no":
        assert service["healthcheck"]["test"]
    for other, condition in service.get("depends_on", {}).items():
        healthy = condition["condition"] == "service_healthy"
        assert "healthcheck" in SERVICES[other] if healthy else SERVICES[other].get("restart", "no") == "no"


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_that_serves_runs_as_root(name: str) -> None:
    if name in OURS:
        files = [FOLDER / Path(OURS[name]["build"]["dockerfile"]).name]
        assert all(re.search(r"^USER 10001:10001$", file.read_text(), re.MULTILINE) for file in files)
        assert OURS[name]["cap_drop"] == ["ALL"]
    elif name == "storage-owner":
        assert SERVICES[name]["network_mode"] == "none"
    else:
        assert SERVICES[name]["user"] not in ("root", "0")


def test_no_secret_stands_in_the_files() -> None:
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|AUTH|KEY", key):
                assert VARIABLE.fullmatch(str(value)) or "${" in str(value), (name, key)
    assert not re.search(r":[^$/{}]+@", (FOLDER / "compose.yaml").read_text())
    for file in FOLDER.glob("Dockerfile*"):
        assert not re.search(r"^(ARG|ENV).*(PASSWORD|SECRET|TOKEN|KEY)", file.read_text(), re.MULTILINE)


def test_the_example_names_every_variable_that_must_be_set_and_sets_no_secret() -> None:
    text = (FOLDER / "env.example").read_text()
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    required = {
        name for name, rest in VARIABLE.findall((FOLDER / "compose.yaml").read_text()) if rest.startswith("set ")
    }
    assert required <= set(values)
    assert {name: value for name, value in values.items() if value} == {
        "LEADLINE_PROJECT": "../examples",
        "LEADLINE_UI_URL": "http://127.0.0.1:8585",
        "LEADLINE_URL": "http://127.0.0.1:4200",
    }


def holders(secret: str) -> set[str]:
    """Return the services that get a variable of .env."""
    return {name for name, service in SERVICES.items() if f"${{{secret}" in str(service.get("environment", {}))}


def test_a_secret_is_known_to_those_alone_who_need_it() -> None:
    workers = {f"worker-{pool}" for pool in ("flows", "cpu", "gpu", "judge")}
    assert holders("POSTGRES_PASSWORD") == {"postgres"}
    assert holders("PREFECT_DATABASE_PASSWORD") == {"postgres", "server"}
    assert holders("LEDGER_PASSWORD") == {"postgres", "telemetry"} | workers
    assert holders("REDIS_PASSWORD") == {"redis", "server"}
    assert holders("STORAGE_ROOT_PASSWORD") == {"storage", "bucket"}
    assert holders("STORAGE_PASSWORD") == {"bucket", "reports"} | workers
    assert holders("STORAGE_READER_PASSWORD") == {"bucket", "notify", "telemetry"}
    assert holders("LEADLINE_UI_TOKEN") == holders("LEADLINE_OIDC_SECRET") == {"reports"}
    assert holders("LEADLINE_WEBHOOK_SECRET") == {"webhook"}
    assert holders("PREFECT_AUTH") == {"server", "deploy", "notify", "webhook", "telemetry"} | workers


def test_keys_of_judges_are_for_those_who_ask_judges_and_env_is_for_no_container() -> None:
    given = {name: [file["path"] for file in service.get("env_file", [])] for name, service in SERVICES.items()}
    assert {name: files for name, files in given.items() if files} == {
        "worker-flows": ["judges.env"],
        "worker-judge": ["judges.env"],
        "notify": ["notify.env"],
    }


def test_all_workers_see_the_project_and_the_weights_under_one_path_and_change_neither() -> None:
    for pool in ("flows", "cpu", "gpu", "judge"):
        worker = SERVICES[f"worker-{pool}"]
        assert "${LEADLINE_PROJECT:-../examples}:/project:ro" in worker["volumes"]
        assert worker["working_dir"] == "/project"
        assert "weights:/weights:ro" in worker["volumes"]
        assert worker["environment"]["HF_HUB_CACHE"] == "/weights"
    assert "weights:/weights" in SERVICES["weights"]["volumes"]


def test_memory_and_logs_are_bounded() -> None:
    for name, service in SERVICES.items():
        assert service["mem_limit"], name
        if service.get("restart", "no") != "no":
            assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name


def test_the_ways_between_services_are_those_that_are_needed() -> None:
    assert {name for name, network in COMPOSE["networks"].items() if not (network or {}).get("internal")} == {"outside"}
    on = {
        network: {name for name, service in SERVICES.items() if network in service.get("networks", [])}
        for network in COMPOSE["networks"]
    }
    workers = {f"worker-{pool}" for pool in ("flows", "cpu", "gpu", "judge")}
    assert on["databases"] == {"postgres", "server", "telemetry"} | workers
    assert on["messages"] == {"redis", "server"}
    assert on["objects"] == {"storage", "bucket", "reports", "notify", "telemetry"} | workers
    assert on["outside"] == {
        "reports",
        "notify",
        "server",
        "webhook",
        "telemetry",
        "weights",
        "worker-flows",
        "worker-judge",
    }


def test_the_address_of_the_ui_is_a_setting() -> None:
    address = SERVICES["server"]["environment"]["PREFECT_UI_API_URL"]
    assert address == "${LEADLINE_URL:-http://127.0.0.1:4200}/api"


def test_every_image_can_be_pinned_and_names_a_version() -> None:
    tls = yaml.safe_load((FOLDER / "compose.tls.yaml").read_text())["services"]
    for name, service in (SERVICES | tls).items():
        found = re.match(r"\$\{\w+_IMAGE:-(.+?)\}", service["image"])
        assert found, name
        assert found[1] == "leadline" or not found[1].endswith((":latest", "minio", "mc")), name
    for file in FOLDER.glob("Dockerfile*"):
        bases = re.findall(r"^FROM (\S+)", file.read_text(), re.MULTILINE)
        assert set(bases) == {"${PYTHON_IMAGE}"}
        assert "ARG PYTHON_IMAGE=python:3.11-slim-bookworm\n" in file.read_text()


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    """Write shell scripts that stand in for programs, and return the environment in which they are found."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    users = {"STORAGE_USER": "worker", "STORAGE_PASSWORD": "secret"}
    return {"PATH": f"{folder}:/usr/bin:/bin", **users, "STORAGE_READER": "page", "STORAGE_READER_PASSWORD": "other"}


def test_digests_are_asked_for_each_image_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    command = ["bash", str(FOLDER / "image-digests.sh")]
    environment = programs(tmp_path, docker='echo "sha256:$(echo $4 | cksum | cut -d" " -f1)"')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    lines = dict(line.split("=") for line in done.stdout.splitlines())
    assert {"POSTGRES_IMAGE", "REDIS_IMAGE", "MINIO_IMAGE", "MINIO_CLIENT_IMAGE", "CADDY_IMAGE"} <= set(lines)
    assert lines["PYTHON_IMAGE"].startswith("python:3.11-slim-bookworm@sha256:")
    environment = programs(tmp_path, docker="echo nothing")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "has no digest: nothing" in done.stderr


@pytest.mark.parametrize(
    ("attached", "code"), [("exit 0", 0), ("echo already in effect; exit 1", 0), ("echo denied; exit 1", 1)]
)
def test_the_bucket_is_made_again_without_an_error(attached: str, code: int, tmp_path: Path) -> None:
    script = f'echo "$*" >> {tmp_path}/asked; case "$*" in *attach*) {attached};; esac'
    done = subprocess.run(
        ["sh", str(FOLDER / "bucket.sh")],
        env=programs(tmp_path, mc=script),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert ("denied" in done.stderr) == (code == 1)
    asked = [
        "mb --ignore-existing storage/leadline",
        "admin policy create storage leadline /bucket-policy.json",
        "admin policy create storage leadline-reader /reader-policy.json",
        "admin user add storage worker secret",
        "admin policy attach storage leadline --user worker",
        "admin user add storage page other",
        "admin policy attach storage leadline-reader --user page",
    ]
    assert (tmp_path / "asked").read_text().splitlines() == asked[: 5 if code else None]


def test_the_user_of_the_storage_may_use_one_bucket_and_administer_nothing() -> None:
    policy = json.loads((FOLDER / "bucket-policy.json").read_text())
    actions = {action for statement in policy["Statement"] for action in statement["Action"]}
    resources = {resource for statement in policy["Statement"] for resource in statement["Resource"]}
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"} <= actions
    assert not [action for action in actions if "*" in action or "Policy" in action or "DeleteBucket" in action]
    assert resources == {"arn:aws:s3:::leadline", "arn:aws:s3:::leadline/*"}


def test_who_only_reads_the_storage_may_change_nothing() -> None:
    policy = json.loads((FOLDER / "reader-policy.json").read_text())
    actions = {action for statement in policy["Statement"] for action in statement["Action"]}
    assert actions == {"s3:GetBucketLocation", "s3:ListBucket", "s3:GetObject"}
    resources = {resource for statement in policy["Statement"] for resource in statement["Resource"]}
    assert resources == {"arn:aws:s3:::leadline", "arn:aws:s3:::leadline/*"}


@pytest.mark.postgres
def test_a_role_reaches_its_own_database_and_no_other(tmp_path: Path) -> None:
    import psycopg

    psql = shutil.which("psql") or str(binaries() / "psql")
    with serving_postgres() as server:
        passwords = {"PREFECT_DATABASE_PASSWORD": "first'one", "LEDGER_PASSWORD": "second"}
        for _ in range(2):  # a second time changes nothing
            subprocess.run(
                [
                    psql,
                    server.url(),
                    "--no-psqlrc",
                    "--quiet",
                    "--file",
                    str(FOLDER / "kubernetes" / "databases" / "roles.sql"),
                ],
                env={"PATH": "/usr/bin:/bin"} | passwords,
                check=True,
                capture_output=True,
                timeout=60,
            )

        def connect(role: str, password: str, database: str) -> psycopg.Connection[Any]:
            return psycopg.connect(
                host="127.0.0.1", port=server.port, user=role, password=password, dbname=database, autocommit=True
            )

        with connect("prefect", "first'one", "prefect") as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")  # Prefect's migrations do
            connection.execute("CREATE TABLE run (id int)")
        with connect("ledger", "second", "leadline") as connection:
            connection.execute("CREATE SCHEMA leadline CREATE TABLE call (id int)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE ROLE another")
        for role, password, database in [
            ("ledger", "second", "prefect"),
            ("prefect", "first'one", "leadline"),
            ("ledger", "second", "postgres"),
        ]:
            with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
                connect(role, password, database)


def program(*names: str) -> list[str]:
    """Return the command of the first of several programs that is here; skip the test where none is."""
    for name in names:
        words = name.split()
        found = shutil.which(words[0])
        if found and subprocess.run([found, *words[1:], "version"], capture_output=True, check=False).returncode == 0:
            return [found, *words[1:]]
    pytest.skip(f"{names[0]} is not installed")


@pytest.mark.parametrize("profiles", [[], ["gpu", "webhook", "weights"]])
@pytest.mark.parametrize("files", [["compose.yaml"], ["compose.yaml", "compose.tls.yaml"]])
def test_docker_compose_understands_the_files(files: list[str], profiles: list[str], tmp_path: Path) -> None:
    command = program("docker-compose", "docker compose")
    environment = tmp_path / "env"
    example = (FOLDER / "env.example").read_text() + "LEADLINE_HOST=leadline.example.org\n"
    environment.write_text(re.sub(r"^(\w+)=$", r"\1=a:b", example, flags=re.MULTILINE))
    options = [part for file in files for part in ("--file", str(FOLDER / file))]
    options += [part for profile in profiles for part in ("--profile", profile)]
    done = subprocess.run(
        [*command, "--env-file", str(environment), *options, "config", "--quiet"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "is not set" not in done.stderr


def test_caddy_understands_its_file(tmp_path: Path) -> None:
    command = [*program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(FOLDER / "Caddyfile")]
    environment = {"HOME": str(tmp_path), "LEADLINE_HOST": "leadline.example.org"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_volumes_are_declared() -> None:
    used = {
        volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    assert {name for name in used if re.fullmatch(r"\w+", name)} == set(COMPOSE["volumes"])
    assert {config["source"] for service in SERVICES.values() for config in service.get("configs", [])} == set(
        COMPOSE["configs"]
    )
    assert all((FOLDER / config["file"]).is_file() for config in COMPOSE["configs"].values())


def test_what_people_have_deployed_outlives_a_restart() -> None:
    assert SERVICES["deploy"]["command"] == ["leadline", "service", "deploy", "--keep"]


def test_only_the_loopback_interface_is_published() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_server_has_the_settings_of_the_service_as_processes() -> None:
    settings = server_environment("database", "redis")
    there = SERVICES["server"]["environment"]
    assert set(settings) <= set(there)
    assert {name: value for name, value in settings.items() if value not in ("database", "redis")} == {
        name: there[name] for name, value in settings.items() if value not in ("database", "redis")
    }


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_images_hold_the_whole_package_and_its_extras(name: str) -> None:
    text = (FOLDER / name).read_text()
    root = FOLDER.parent
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()}
    assert {"pyproject.toml", "leadline", "evaluators", "tasks", "flows", "plugins", "deployments"} <= copied
    assert all(any(root.glob(word)) for word in copied if not word.startswith(("-", "/")))
    [extras] = re.findall(r'"\.\[(.+)\]"', text)
    assert set(extras.split(",")) <= set(
        re.findall(r"^(\w+) = \[", (root / "pyproject.toml").read_text(), re.MULTILINE)
    )


def copies_of(name: str) -> list[str]:
    """Return what a container file copies from the checkout, each line with its target."""
    return re.findall(r"^COPY (?!--from)(.+)$", (FOLDER / name).read_text(), re.MULTILINE)


def test_what_both_images_copy_builds_a_wheel_with_all_rooms(tmp_path: Path) -> None:
    source, root = tmp_path / "src", FOLDER.parent
    source.mkdir()
    copied, of_cuda = (
        {(word, words[-1]) for words in map(str.split, copies_of(name)) for word in words[:-1]}
        for name in ("Dockerfile", "Dockerfile.cuda")
    )
    assert copied == of_cuda
    for word, target in copied:
        for path in root.glob(word):
            place = source / target / (path.name if target == "./" else "")
            if path.is_dir():
                shutil.copytree(path, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    rooms = {"evaluators", "tasks", "flows", "plugins", "deployments"}
    assert rooms <= {entry.split("/")[1] for entry in names if entry.startswith("leadline/")}
    assert {entry.split("/")[0] for entry in names} == {"leadline", "leadline-0.1.0.dist-info"}
    assert {"leadline/cli/main.py", "leadline/deployments/prefect.yaml"} <= set(names)
    assert any(entry.endswith("/LICENSE") for entry in names)


def test_the_context_of_images_holds_what_they_copy() -> None:
    allowed = {line[1:] for line in (FOLDER.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in ("Dockerfile", "Dockerfile.cuda"):
        assert {word for line in copies_of(name) for word in line.split()[:-1]} == allowed


@contextmanager
def upstream(name: str) -> Iterator[int]:
    """Serve pages that say who they are and which path was asked for; yield the port."""

    class Page(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"{name} {self.path}".encode())

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Page)) as port:
        yield port


def test_caddy_leads_each_address_to_its_service_and_no_further(tmp_path: Path) -> None:
    caddy = program("caddy")
    text = (FOLDER / "Caddyfile").read_text()
    with upstream("server") as server, upstream("webhook") as webhook, upstream("reports") as reports:
        port, health = free_port(), free_port()
        for name, there in (("server:4200", server), ("webhook:8484", webhook), ("reports:8585", reports)):
            assert name in text
            text = text.replace(name, f"127.0.0.1:{there}")
        file = tmp_path / "Caddyfile"
        file.write_text(text.replace(":8081", f":{health}"))
        environment = {"HOME": str(tmp_path), "LEADLINE_HOST": f"http://127.0.0.1:{port}"}
        command = [*caddy, "run", "--adapter", "caddyfile", "--config", str(file)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as proxy:
            try:
                with httpx.Client(
                    base_url=f"http://127.0.0.1:{port}", transport=httpx.HTTPTransport(retries=7), timeout=20
                ) as client:
                    asked = {path: client.get(path) for path in ASKED}
            finally:
                proxy.terminate()
    assert {path: reply.text or reply.status_code for path, reply in asked.items()} == ASKED
    assert asked["/"].headers["strict-transport-security"]


ASKED: dict[str, str | int] = {
    "/": "server /",
    "/api/health": "server /api/health",
    "/webhook/mlflow": "webhook /mlflow",
    "/webhook/huggingface": "webhook /huggingface",
    "/webhook/metrics": 404,
    "/webhook": 404,
    "/reports/runs/x": "reports /runs/x",
}
