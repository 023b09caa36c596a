"""`tier demo`: the whole of it, for some seconds."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
LIMIT_SECONDS = 150
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo in a session of its own, as a shell starts it; killed at the end if it still runs."""
    command = [sys.executable, "-c", "from worker.cli import main; main()", "demo", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that these started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found, waiting = set[int](), [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.add(child)
            waiting.append(child)
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def read_until(process: subprocess.Popen[str], word: str) -> None:
    """Read its lines up to one with this word."""
    assert process.stdout
    assert process.stderr
    line = ""
    while word not in line:
        line = process.stdout.readline()
        assert line, process.stderr.read()


def number(text: str, said: str) -> int:
    match = re.search(rf"(\d+) {said}", text)
    assert match, text
    return int(match[1])


def test_every_value_read_back_is_what_was_written_and_threads_move_both_ways() -> None:
    with running("--seconds", "8") as demo:
        out, err = demo.communicate(timeout=LIMIT_SECONDS)

    assert (demo.returncode, err) == (0, "")
    for what in ("archived", "demoted", "promoted"):
        assert number(out, f"times a thread was {what}") > 0
    assert number(out, "interrupts resumed from Postgres") > 0
    assert number(out, "values compared") > 20
    assert "  0 different" in out
    for name, scheme in (("metrics", "http"), ("redis", "redis"), ("postgres", "postgresql")):
        assert re.search(rf"^  {name} +{scheme}://", out, re.MULTILINE)


@needs_proc
def test_without_a_worker_nothing_moves_and_the_exit_code_says_so() -> None:
    with running("--seconds", "1") as demo:
        read_until(demo, "agents write")
        [worker] = [
            pid for pid in descendants(demo.pid) if b"worker.Settings" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(worker, signal.SIGKILL)
        out, err = demo.communicate(timeout=LIMIT_SECONDS)

    assert demo.returncode == 1
    assert "the worker ended" in err
    assert "no thread was promoted" in err
    assert "  0 different" in out


@needs_proc
def test_ctrl_c_ends_it_and_leaves_nothing_behind() -> None:
    with running("--forever") as demo:
        read_until(demo, "compared")
        started = descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=LIMIT_SECONDS)

    assert (demo.returncode, err) == (0, "")
    assert "  0 different" in out
    assert len(started) > 3
    eventually(lambda: not any(map(is_alive, started)), within_seconds=20)
