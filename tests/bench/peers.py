"""The environments of the peers and the processes of all contestants."""

import json
import os
import select
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.contestants import CONTESTANTS, Contestant, Urls

PROJECT = Path(__file__).parents[2]
ENVIRONMENTS = PROJECT / ".venv-bench"
INSTALL_SECONDS = 300
ANSWER_SECONDS = 180


class Absent(Exception):  # noqa: N818 - a fact to report
    """A contestant cannot take part; the text says why."""


def python_of(name: str, contestant: Contestant) -> Path:
    """The interpreter of a contestant, installed when needed. Raises Absent."""
    return environment(name, contestant.requirements) if contestant.requirements else Path(sys.executable)


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment with some packages, installed when needed. Raises Absent."""
    place = ENVIRONMENTS / name
    python, stamp = place / "bin" / "python", place / ".installed"
    if stamp.exists() and stamp.read_text().split() == list(requirements):
        return python
    venv.create(place, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Absent(f"not installed within {INSTALL_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise Absent(f"pip could not install it ({(errors or ['no reason given'])[-1]})")
    stamp.write_text("\n".join(requirements))
    return python


class Runner:
    """A contestant's process. Ask it for measures; it ends with `close`."""

    def __init__(self, name: str, urls: Urls) -> None:
        self.contestant = CONTESTANTS[name]
        command = [str(python_of(name, self.contestant)), "-m", "tests.bench.worker", name, *urls]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT, text=True
        )
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        self.version = str(self._answer()["version"])

    def measure(self, name: str, messages: int, count: int) -> list[float]:
        """Raises Absent when the contestant cannot do this or died."""
        assert self._process.stdin is not None
        try:
            print(
                json.dumps({"measure": name, "messages": messages, "count": count}),
                file=self._process.stdin,
                flush=True,
            )
        except BrokenPipeError:
            raise Absent(self._last_words()) from None
        answer = self._answer()
        if "fault" in answer:
            raise Absent(str(answer["fault"]))
        values: list[float] = answer["values"]
        return values

    def _answer(self) -> dict[str, Any]:
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], ANSWER_SECONDS)
        if not ready:
            raise Absent(f"no answer within {ANSWER_SECONDS} s")
        line = output.readline()
        if not line:
            raise Absent(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        self._process.wait(10)
        lines = [line for line in (self._process.stderr.read() or "").splitlines() if line.strip()]
        return f"it ended: {lines[-1][:200] if lines else 'without a word'}"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
