"""The topology of compose.yaml without containers: its commands, its redis.conf and the shipped rights together."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from click.testing import CliRunner

from saver.config import environment_for
from tests.fix_servers import StartServers
from tests.ops.deployed import DEPLOY
from tests.waiting import eventually
from worker.cli.group import tier
from worker.demo.worker_process import WorkerProcess
from worker.embedded.server import free_port

yaml = pytest.importorskip("yaml")
# Seconds instead of the half minute of compose.yaml, which people are to watch.
QUICK = {"TIER_ARCHIVE_AFTER": "400ms", "TIER_DEMOTE_AFTER": "1s"}


@dataclass
class Topology:
    """What runs, and the owner's way into its Redis."""

    variables: dict[str, str]
    worker: WorkerProcess
    agent: "subprocess.Popen[bytes]"
    agent_url: str
    owner: redis.Redis


@pytest.fixture
def topology(private_servers: StartServers, tmp_path: Path) -> Iterator[Topology]:
    servers = private_servers(durable=True, redis_settings=settings_of(DEPLOY / "redis.conf"))
    owner = redis.Redis.from_url(servers.redis_url)
    _, user = (DEPLOY / "redis.acl").read_text().splitlines()
    owner.execute_command("ACL", "SETUSER", *user.split()[1:])  # type: ignore[no-untyped-call]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    variables = services["worker"]["environment"] | QUICK
    variables["TIER_REDIS_URL"] = f"redis://tier:CHANGE-ME@127.0.0.1:{servers.redis_port}/0"
    variables["TIER_POSTGRES_URL"] = servers.postgres_url
    port = free_port()
    command = [*agent_command(), "--port", str(port), "--customers", "10", "--pause-seconds", "0.4"]
    with ExitStack() as stack:
        worker = stack.enter_context(WorkerProcess(variables, tmp_path / "worker.log"))
        agent = subprocess.Popen(command, env=environment_for(variables))
        stack.callback(agent.wait)
        stack.callback(agent.kill)
        yield Topology(variables, worker, agent, f"http://127.0.0.1:{port}/metrics", owner)


def settings_of(path: Path) -> dict[str, object]:
    lines = (line.split(maxsplit=1) for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {name: value.strip('"') for name, value in lines}


def commands_of_images() -> list[list[str]]:
    """What each stage of the Dockerfile runs, in its order."""
    return [json.loads(text) for text in re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)]


def agent_command() -> list[str]:
    python, script, *options = commands_of_images()[0]
    assert (python, script) == ("python", "/demo_agent.py")
    return [sys.executable, str(DEPLOY / "demo_agent.py"), *options]


def agent_writes(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return re.search(rb'^tier_writes_total\{kind="checkpoint"\} [1-9]', answer.read(), re.MULTILINE) is not None
    except OSError:
        return False


def test_worker_and_agent_of_compose_move_threads_with_the_shipped_rights(topology: Topology) -> None:
    moves = ("tier_archived_threads_total", "tier_demoted_threads_total", "tier_up")

    eventually(lambda: agent_writes(topology.agent_url), within_seconds=30)
    eventually(lambda: all(topology.worker.metrics().get(name) for name in moves), within_seconds=40)

    assert topology.agent.poll() is None
    refused = [entry["object"] for entry in cast(Any, topology.owner.acl_log())]
    assert refused == []
    shown = CliRunner(env=topology.variables).invoke(tier, ["doctor"], catch_exceptions=False)
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "nothing to mend")


def test_the_images_run_what_this_test_runs() -> None:
    _, worker = commands_of_images()
    unit = (DEPLOY / "systemd" / "tier-worker.service").read_text()

    assert worker == ["arq", "worker.Settings"]
    assert f"/bin/{shlex.join(worker)}\n" in unit
