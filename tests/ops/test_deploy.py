"""What is shipped in deploy/: it parses, it fits the code, and where a validator is installed, that agrees."""

import re
import shutil
from pathlib import Path

import pytest

from saver.config import TierConfig
from tests.ops.deployed import DEPLOY, PROMETHEUS, metric_names, run_validator
from worker.config import WorkerConfig

yaml = pytest.importorskip("yaml")

YAML_FILES = sorted([*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")])
KNOWN_VARIABLES = {f"TIER_{name.upper()}" for name in WorkerConfig.model_fields}


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_parses(path: Path) -> None:
    assert all(document for document in yaml.safe_load_all(path.read_text()))


def test_every_variable_that_is_set_is_known() -> None:
    for path in [*DEPLOY.rglob("*"), DEPLOY.parent / "SECURITY.md"]:
        if path.is_file() and path.suffix not in (".pyc", ".png"):
            used = set(re.findall(r"\bTIER_[A-Z_]+[A-Z]\b", path.read_text()))
            assert used <= KNOWN_VARIABLES, path.name


def test_what_compose_sets_is_a_configuration() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    worker = {name: filled(value) for name, value in compose["services"]["worker"]["environment"].items()}

    config = TierConfig(**{name.removeprefix("TIER_").lower(): value for name, value in worker.items()})

    assert worker == {name: filled(value) for name, value in compose["services"]["agent"]["environment"].items()}
    assert config.redis_url.get_secret_value() == "redis://:tiers@redis:6379/0"


def filled(text: str) -> str:
    """As compose fills in a default."""
    return re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text)


def test_files_that_compose_mounts_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())]

    assert all((DEPLOY / path).exists() for path in mounted if path.startswith("./"))


def test_prometheus_scrapes_the_ports_that_are_served() -> None:
    scraped = {
        job["job_name"]: job["dns_sd_configs"][0]["port"]
        for job in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    }
    default = WorkerConfig.model_fields["metrics_port"].default

    assert scraped["tier-worker"] == default
    assert f"default={scraped['tier-agent']}" in (DEPLOY / "demo_agent.py").read_text()


def test_kubernetes_probes_ask_for_what_is_served() -> None:
    documents = {
        document["kind"]: document
        for path in (DEPLOY / "kubernetes").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    }
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]

    assert pod["enableServiceLinks"] is False
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {"PodDisruptionBudget", "HorizontalPodAutoscaler", "Secret"} <= set(documents)
    [scale] = documents["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert scale["external"]["metric"]["name"] in metric_names()
    assert container["envFrom"][0]["secretRef"]["name"] == documents["Secret"]["metadata"]["name"]


def test_the_unit_starts_a_worker_again_whatever_ends_it() -> None:
    unit = (DEPLOY / "systemd" / "tier-worker.service").read_text()

    assert "ExecStart=/opt/tier/bin/arq worker.Settings\n" in unit
    assert "\nRestart=always\n" in unit
    assert "\nStartLimitIntervalSec=0\n" in unit


@pytest.mark.parametrize("check", [["verify"], ["security", "--offline=true", "--threshold=20"]], ids=lambda it: it[0])
def test_systemd_agrees(tmp_path: Path, check: list[str]) -> None:
    unit = (DEPLOY / "systemd" / "tier-worker.service").read_text()
    (tmp_path / "tier-worker.service").write_text(unit.replace("/opt/tier/bin/arq", shutil.which("true") or ""))

    run_validator(["systemd-analyze", *check, str(tmp_path / "tier-worker.service")], tmp_path)


def test_the_build_sends_only_what_the_image_needs() -> None:
    sent = set(re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)

    assert sent == {name for line in copied for name in line.split()}


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
        *(
            ["kubernetes-validate", "--strict", f"kubernetes/{path.name}"]
            for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        ),
    ],
    ids=lambda command: " ".join(command[:: len(command) - 1]),
)
def test_other_validators_agree(command: list[str]) -> None:
    run_validator(command, DEPLOY)
