"""
CFG-06: every documented variable is in force in every process that documents it, and what is missing or malformed ends
the start, soon and in words, instead of meaning this machine.
"""

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from saver.config import WORKER_VARIABLES, environment_for
from tests.fix_worker import ARQ

ROOT = Path(__file__).parents[2]
DOCUMENTED = set(re.findall(r"^#?(TIER_\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))
SECRETS = {"TIER_ENCRYPTION_KEY", "TIER_THREAD_SECRET"}
MOST_CPU_SECONDS = 5
UNUSUAL = {
    "TIER_REDIS_URL": "rediss://user:hunter2@hot.example:6390/3",
    "TIER_POSTGRES_URL": "postgresql://user:hunter2@cold.example:5433/threads",
    "TIER_POSTGRES_REPLICA_URL": "postgresql://user:hunter2@copy.example:5434/threads",
    "TIER_QUEUE_URL": "redis://user:hunter2@queue.example:6391/4",
    "TIER_KEY_PREFIX": "shop:eu",
    "TIER_POSTGRES_SCHEMA": "Threads_7",
    "TIER_PARTITIONS": "17",
    "TIER_WRITE_MODE": "through",
    "TIER_ARCHIVE_AFTER": "1500ms",
    "TIER_DEMOTE_AFTER": "77m",
    "TIER_HOT_CHECKPOINTS": "all",
    "TIER_PROMOTE_CHECKPOINTS": "5",
    "TIER_ON_IDLE": "archive",  # the other value contradicts TIER_WRITE_MODE
    "TIER_RETAIN_FOR": "91d",
    "TIER_KEEP_CHECKPOINTS": "off",
    "TIER_RETAIN_WAITING": "expire",
    "TIER_RETENTION_AT": "23:59",
    "TIER_ENCRYPTION_KEY": "hunter2-hunter2-",
    "TIER_STRICT_TYPES": "on",
    "TIER_THREAD_SECRET": "hunter2-hunter2-hunter2",
    "TIER_REDIS_POOL_SIZE": "33",
    "TIER_POSTGRES_MIN_SIZE": "1",
    "TIER_POSTGRES_MAX_SIZE": "11",
    "TIER_REDIS_TIMEOUT": "3s",
    "TIER_POSTGRES_TIMEOUT": "11s",
    "TIER_BATCH_THREADS": "201",
    "TIER_BATCH_BYTES": "33 MiB",
    "TIER_WORKER_JOBS": "3",
    "TIER_METRICS_PORT": "off",
    "TIER_METRICS_HOST": "::",
    "TIER_LOG_LEVEL": "warning",
    "TIER_LOG_FORMAT": "console",
    "TIER_LOG_THREAD_IDS": "on",
}
REQUIRED = {name: UNUSUAL[name] for name in ("TIER_REDIS_URL", "TIER_POSTGRES_URL")}
AGENT = "import json; from saver import TierConfig; print(json.dumps(TierConfig.from_env().effective()))"
WORKER = "import json; from worker.config import WorkerConfig; print(json.dumps(WorkerConfig.load().effective()))"
SETTINGS = """
import json, worker
found = worker.Settings
pool = found.redis_pool.connection_pool.connection_kwargs
print(json.dumps([found.max_jobs, found.queue_name, found.redis_settings.host, pool["host"], pool["port"], pool["db"]]))
"""
# Tells of every connection that the process asks for, in a file.
WATCH = """
import sys
def told(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        with open("connections", "a") as file:
            file.write(f"{event} {arguments[-1] if event == 'socket.connect' else arguments[0]}\\n")
sys.addaudithook(told)
"""
PROCESSES = {
    "agent": [sys.executable, "-c", "from saver import TieredSaver\nwith TieredSaver.from_env(): pass"],
    "worker": [ARQ, "worker.Settings"],
    "tier": [str(Path(sys.executable).with_name("tier")), "status"],
}
FAULTS = {
    "no Redis": ("TIER_REDIS_URL", None),
    "no Postgres": ("TIER_POSTGRES_URL", None),
    "malformed Redis": ("TIER_REDIS_URL", "redis//user:hunter2@hot"),
    "malformed Postgres": ("TIER_POSTGRES_URL", "postgresql://user:hunter2@cold:port/threads"),
    "malformed queue": ("TIER_QUEUE_URL", "http://user:hunter2@queue"),
}


def run(command: list[str], variables: dict[str, str], directory: Path) -> "subprocess.CompletedProcess[str]":
    environment = environment_for(variables) | {"PYTHONPATH": str(directory)}
    return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, check=False)


def shown(variable: str) -> str:
    """How a value is told: secrets hidden."""
    if variable in SECRETS:
        return "***"
    return UNUSUAL[variable].replace("user:hunter2", "***")


def test_an_unusual_value_is_known_for_each_variable() -> None:
    assert set(UNUSUAL) == DOCUMENTED


@pytest.mark.parametrize(
    ("code", "documented"),
    [(AGENT, DOCUMENTED - WORKER_VARIABLES), (WORKER, DOCUMENTED)],
    ids=["agent", "worker"],
)
def test_each_value_is_in_force_in_each_process(tmp_path: Path, code: str, documented: set[str]) -> None:
    ended = run([sys.executable, "-c", code], UNUSUAL, tmp_path)

    effective = json.loads(ended.stdout)
    assert set(effective) == documented
    assert {name: effective[name] for name in documented} == {name: shown(name) for name in documented}
    assert "hunter2" not in ended.stdout + ended.stderr


def test_tier_config_shows_the_same(tmp_path: Path) -> None:
    ended = run([PROCESSES["tier"][0], "config", "--json"], UNUSUAL, tmp_path)

    assert json.loads(ended.stdout) == {name: shown(name) for name in DOCUMENTED}


def test_the_queue_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    ended = run([sys.executable, "-c", SETTINGS], UNUSUAL, tmp_path)

    assert json.loads(ended.stdout) == [3, "shop:eu:queue", "queue.example", "queue.example", 6391, 4]


def test_each_variable_is_read_by_the_code() -> None:
    sources = [path for part in ("saver", "jobs", "worker") for path in (ROOT / part).rglob("*.py")]
    text = "\n".join(path.read_text() for path in sources if path.name != "config.py")

    unread = {name for name in DOCUMENTED if not re.search(rf"\.{name.removeprefix('TIER_').lower()}\b", text)}

    # The configuration itself makes the key, and reads the secret for processes that know neither tier.
    assert unread <= {"TIER_ENCRYPTION_KEY", "TIER_THREAD_SECRET"}


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_missing_or_malformed_ends_the_start(tmp_path: Path, process: str, fault: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    variable, value = FAULTS[fault]
    variables = {**REQUIRED, variable: value}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)

    ended = run(PROCESSES[process], {name: text for name, text in variables.items() if text is not None}, tmp_path)

    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode != 0
    assert variable in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr
    assert not (tmp_path / "connections").exists()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_CPU_SECONDS


def test_the_watch_would_have_seen_a_connection(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCH)

    run(PROCESSES["worker"], {**REQUIRED, "TIER_REDIS_URL": "redis://127.0.0.1:1"}, tmp_path)

    assert "127.0.0.1" in (tmp_path / "connections").read_text()


@pytest.mark.parametrize("process", PROCESSES)
def test_an_unknown_variable_is_a_warning(tmp_path: Path, process: str) -> None:
    unreachable = {"TIER_REDIS_URL": "redis://127.0.0.1:1", "TIER_POSTGRES_URL": "postgresql://u@127.0.0.1:1/x"}

    ended = run(PROCESSES[process], {**unreachable, "TIER_COLOUR": "hunter2"}, tmp_path)

    assert "TIER_COLOUR" in ended.stderr
    assert "hunter2" not in ended.stderr
