"""The processes of the chaos: agents and workers, started again whenever they end, as a supervisor does."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from saver.config import environment_for

REPOSITORY = Path(__file__).parents[3]
STOP_SECONDS = 40


class Member:
    """One place in the crew: a command that runs again when it ends."""

    def __init__(self, command: list[str], variables: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = {**environment_for(dict(variables)), "PYTHONPATH": str(REPOSITORY)}
        self._log = log
        self.crashes = 0
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._command, env=self._environment, cwd=self._log.parent, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, number)

    def revive(self) -> bool:
        """Start it again if it ended; whether that was needed."""
        if self.process.poll() is None:
            return False
        self.crashes += self.process.returncode > 0
        self.process = self._start()
        return True

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        return (self._log.read_text(errors="replace").splitlines() or [""])[-1]

    def stop(self) -> None:
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
            return
        self.process.kill()
        self.process.wait()


class Crew:
    """All agents and workers."""

    def __init__(self, folder: Path, variables: Mapping[str, str], seed: int, agents: int, workers: int) -> None:
        self._folder = folder
        self.restarts: Counter[str] = Counter()
        self.notes = [folder / f"agent-{number}.notes" for number in range(agents)]
        for path in self.notes:
            path.touch()
        self.agents = [
            self._member(self._agent(number, seed), variables, f"agent-{number}") for number in range(agents)
        ]
        worker = [str(Path(sys.executable).with_name("arq")), "worker.Settings"]
        self.workers = [self._member(worker, variables, f"worker-{number}") for number in range(workers)]

    def _agent(self, number: int, seed: int) -> list[str]:
        module = "tests.faults.chaos.agent"
        return [sys.executable, "-m", module, str(number), str(seed + number), str(self.notes[number])]

    def _member(self, command: list[str], variables: Mapping[str, str], name: str) -> Member:
        return Member(command, variables, self._folder / f"{name}.log")

    def revive(self) -> None:
        """What a supervisor does."""
        for kind, members in (("agents", self.agents), ("workers", self.workers)):
            self.restarts[kind] += sum(member.revive() for member in members)

    def stop(self, kind: Callable[["Crew"], list[Member]]) -> None:
        """Tell them to end, all at once, and wait for each."""
        for member in kind(self):
            member.send(signal.SIGCONT)
            member.send(signal.SIGTERM)
        for member in kind(self):
            member.stop()
