"""What deploy/GUIDE.md says is true: its examples run one after the other, its recipes load, its metrics exist."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from langgraph.checkpoint.postgres import PostgresSaver

from saver.config import environment_for
from tests.ops.deployed import DEPLOY, alerts_on, family_names, used_metrics
from tests.ops.test_readme import blocks, rows_of
from worker.cli.group import tier
from worker.config import WorkerConfig
from worker.embedded import Embedded

GUIDE = (DEPLOY / "GUIDE.md").read_text()
FOUND = 1


@dataclass
class Reader:
    """Somebody who types in what the guide says, in a folder of their own."""

    directory: Path
    variables: dict[str, str]

    def run(self, code: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            env=environment_for(self.variables) | {"PYTHONPATH": str(self.directory)},
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def type(self, line: str) -> int:
        return CliRunner(env=self.variables).invoke(tier, shlex.split(line)[1:], catch_exceptions=False).exit_code


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Embedded() as servers:
        variables = {"TIER_REDIS_URL": servers.redis_url, "TIER_POSTGRES_URL": servers.postgres_url}
        yield Reader(tmp_path, variables)


def write_with_the_stock_saver(reader: Reader, thread_id: str) -> None:
    """What was there before us."""
    code = (
        "from agent import builder\nfrom langgraph.checkpoint.postgres import PostgresSaver\nimport os\n"
        "with PostgresSaver.from_conn_string(os.environ['TIER_POSTGRES_URL']) as saver:\n"
        "    saver.setup()\n"
        "    graph = builder.compile(checkpointer=saver)\n"
        f"    graph.invoke({{'messages': [('user', 'old')]}}, {{'configurable': {{'thread_id': {thread_id!r}}}}})\n"
    )
    reader.run(code)


def test_the_examples_run_one_after_the_other(reader: Reader) -> None:
    agent, adopt, leave, waiting, forget = blocks(GUIDE, "python")
    (reader.directory / "agent.py").write_text(agent)
    write_with_the_stock_saver(reader, "old-1")
    commands = [line for block in blocks(GUIDE, "sh") for line in block.splitlines() if line.startswith("tier ")]

    assert reader.run("import agent, asyncio; asyncio.run(agent.main())") == "You said: hello"
    codes = {line: reader.type(line) for line in commands}
    assert reader.run(adopt) == "cold 2"
    assert reader.run(leave) == "2"
    assert reader.run(waiting) == ""
    assert reader.run(forget) == "nothing left"

    assert codes.pop("tier doctor") == FOUND  # servers for tests do not wait for the disk
    assert codes == {"tier status": 0, "tier show ada-1": 0, "tier demote ada-1": 0}
    assert reader.type("tier show ada-1") == FOUND
    assert reader.type("tier show old-1") == 0


def test_the_class_to_swap_is_the_stock_one() -> None:
    assert f"with {PostgresSaver.__name__}.from_conn_string" in blocks(GUIDE, "python")[1]


@pytest.mark.parametrize("recipe", blocks(GUIDE, "ini"), ids=lambda text: text.partition("\n")[0])
def test_a_recipe_is_a_configuration(monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    told = dict(line.split("=", 1) for line in recipe.splitlines())
    for name in [name for name in os.environ if name.startswith("TIER_")]:
        monkeypatch.delenv(name)
    for name, value in {"TIER_REDIS_URL": "redis://h", "TIER_POSTGRES_URL": "postgresql://h/d", **told}.items():
        monkeypatch.setenv(name, value)

    effective = WorkerConfig.load().effective()

    assert {name: effective[name] for name in told} == told


def test_each_metric_is_told_and_no_other() -> None:
    told = {name for cells in rows_of("Watch it", GUIDE) for name in used_metrics(cells[0])}

    assert told == family_names()


def test_the_alerts_of_each_fault_ask_for_its_metrics() -> None:
    table = GUIDE.partition("How a job that stopped shows")[2]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][1:]

    assert len(rows) == 4
    for _, metrics, alerts in rows:
        asked = {alert for name in used_metrics(metrics) or {"up"} for alert in alerts_on(name)}
        assert set(re.findall(r"Tier\w+", alerts)) & asked
