"""
The topology of compose.yaml without containers: its own commands and files, with addresses of this machine.

Redis is what `command` says, on the shipped redis.conf; worker and agent are what the Dockerfile says; Prometheus takes
the shipped configuration with other targets, where it is installed. Postgres is the embedded one.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import pytest
import redis
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from saver.config import environment_for
from tests.fix_servers import StartServers
from tests.ops.deployed import DEPLOY, PROMETHEUS, expressions
from tests.waiting import eventually
from worker.cli.group import tier
from worker.embedded.programs import find_redis
from worker.embedded.server import free_port

yaml = pytest.importorskip("yaml")
# Seconds instead of the half minute of compose.yaml, which people are to watch.
QUICK = {"TIER_ARCHIVE_AFTER": "400ms", "TIER_DEMOTE_AFTER": "1s", "TIER_METRICS_HOST": "127.0.0.1"}
PASSWORD = "tiers"  # what compose.yaml takes when nobody sets another
USERS = {"as in compose.yaml": f":{PASSWORD}", "with the shipped rights": "tier:CHANGE-ME"}
MOVED = ("tier_archived_threads_total", "tier_demoted_threads_total", "tier_workers")


@dataclass
class Topology:
    """What runs, the owner's way into its Redis, and the ports of the scrape addresses."""

    variables: dict[str, str]
    owner: redis.Redis
    agent: "subprocess.Popen[bytes]"
    worker_port: int
    agent_port: int

    def has(self, *names: str, port: int | None = None) -> bool:
        """Whether a scrape address has samples of these names that are not 0."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.worker_port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return False
        families = text_string_to_metric_families(text)
        found = {sample.name for family in families for sample in family.samples if sample.value}
        return found >= set(names)


@pytest.fixture(params=list(USERS.values()), ids=list(USERS))
def topology(request: pytest.FixtureRequest, private_servers: StartServers, tmp_path: Path) -> Iterator[Topology]:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    redis_port, ports = free_port(), {"worker": free_port(), "agent": free_port()}
    owner = redis.Redis.from_url(f"redis://:{PASSWORD}@127.0.0.1:{redis_port}/0")
    with ExitStack() as stack:

        def run(command: list[str], variables: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen(command, env=environment_for(variables or {}), cwd=tmp_path)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        run([*redis_command(services["redis"]), "--port", str(redis_port), "--bind", "127.0.0.1"])
        eventually(lambda: answers(owner), within_seconds=20)
        give_shipped_rights(owner)
        variables = services["worker"]["environment"] | QUICK
        variables["TIER_REDIS_URL"] = f"redis://{request.param}@127.0.0.1:{redis_port}/0"
        variables["TIER_POSTGRES_URL"] = private_servers(durable=True).postgres_url
        worker, agent = commands_of_images()
        run(worker, variables | {"TIER_METRICS_PORT": str(ports["worker"])})
        agent += ["--port", str(ports["agent"]), "--customers", "10", "--pause-seconds", "0.4"]
        yield Topology(variables, owner, run(agent, variables), ports["worker"], ports["agent"])


def redis_command(service: Mapping[str, Any]) -> list[str]:
    """What compose runs, with the mounted file where it is here."""
    mounts = dict(reversed(volume.split(":")[:2]) for volume in service["volumes"])
    program, *arguments = [re.sub(r"\$\{\w+:-(\w+)\}", r"\1", part) for part in service["command"]]
    assert program == "valkey-server"
    return [str(find_redis()), *(str(DEPLOY / mounts[part]) if part in mounts else part for part in arguments)]


def commands_of_images() -> tuple[list[str], list[str]]:
    """What the worker's and the agent's image run, from the environment of this interpreter."""
    lines = re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    (python, script, *options), (arq, *settings) = map(json.loads, lines)
    assert (python, script, arq) == ("python", "/demo_agent.py", "arq")
    beside = Path(sys.executable).parent
    return [str(beside / arq), *settings], [sys.executable, str(DEPLOY / "demo_agent.py"), *options]


def give_shipped_rights(owner: redis.Redis) -> None:
    _, user = (DEPLOY / "redis.acl").read_text().splitlines()
    owner.execute_command("ACL", "SETUSER", *user.split()[1:])  # type: ignore[no-untyped-call]


def answers(owner: redis.Redis) -> bool:
    try:
        return bool(owner.ping())
    except redis.exceptions.ConnectionError:
        return False


def test_worker_and_agent_of_compose_move_threads(topology: Topology) -> None:
    eventually(lambda: topology.has("tier_writes_total", port=topology.agent_port), within_seconds=40)
    eventually(lambda: topology.has(*MOVED), within_seconds=40)

    assert topology.agent.poll() is None
    refused = [entry["object"] for entry in cast(Any, topology.owner.acl_log())]
    assert refused == []
    shown = CliRunner(env=topology.variables).invoke(tier, ["doctor"], catch_exceptions=False)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "nothing to mend"), shown.stdout


@pytest.mark.parametrize("topology", [USERS["as in compose.yaml"]], indirect=True)
def test_prometheus_of_compose_scrapes_both_and_answers_the_dashboard(topology: Topology, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    targets = {"tier-worker": topology.worker_port, "tier-agent": topology.agent_port}
    eventually(lambda: topology.has(*MOVED), within_seconds=60)

    with Prometheus(program, tmp_path / "prometheus", targets) as ask:
        eventually(lambda: len(ask("up == 1")) == 2, within_seconds=30)
        eventually(lambda: ask('tier_last_success_timestamp_seconds{job="archive"} > 0'), within_seconds=30)
        for expression in expressions():
            ask(expression.replace("$__rate_interval", "1m"))
        assert ask('ALERTS{alertstate="firing"}') == []


class Prometheus:
    """The shipped configuration in a real Prometheus; entering gives a function that asks it."""

    def __init__(self, program: str, directory: Path, targets: Mapping[str, int]) -> None:
        shutil.copytree(PROMETHEUS, directory)
        config = yaml.safe_load((directory / "prometheus.yml").read_text())
        for job in config["scrape_configs"]:
            del job["dns_sd_configs"]
            job["static_configs"] = [{"targets": [f"127.0.0.1:{targets[job['job_name']]}"]}]
        config["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        self._address = f"127.0.0.1:{free_port()}"
        options = {
            "config.file": directory / "prometheus.yml",
            "storage.tsdb.path": directory / "data",
            "web.listen-address": self._address,
            "log.level": "error",
        }
        self._command = [program, *(f"--{name}={value}" for name, value in options.items())]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command)
        eventually(self._is_ready, within_seconds=30)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def __call__(self, query: str) -> list[dict[str, Any]]:
        text = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"http://{self._address}/api/v1/query?{text}", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def _is_ready(self) -> bool:
        try:
            return self("vector(1)") != []
        except OSError:
            return False


def test_the_unit_runs_what_the_image_runs() -> None:
    worker, _ = commands_of_images()
    unit = (DEPLOY / "systemd" / "tier-worker.service").read_text()

    assert f"/bin/{shlex.join([Path(worker[0]).name, *worker[1:]])}\n" in unit
