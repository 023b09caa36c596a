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
from tests.faults.chaos.history import RETAIN_SECONDS
from tests.faults.world import World

REPOSITORY = Path(__file__).parents[3]
STOP_SECONDS = 40
AGENTS, WORKERS = 4, 2


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
    """All agents and workers, and one that retains."""

    def __init__(self, folder: Path, world: World, variables: Mapping[str, str], seed: int, behind: int) -> None:
        """So many agents that write behind; the others write through."""
        self._folder = folder
        self.restarts: Counter[str] = Counter()
        self.notes = [folder / f"agent-{number}.notes" for number in range(AGENTS)]
        for path in self.notes:
            path.touch()
        through = {**variables, "TIER_WRITE_MODE": "through"}
        url = world.servers.postgres_url
        self.agents = [
            self._member(
                _python("agent", number, seed + number, path, url),
                variables if number < behind else through,
                f"agent-{number}",
            )
            for number, path in enumerate(self.notes)
        ]
        worker = [str(Path(sys.executable).with_name("arq")), "worker.Settings"]
        self.workers = [self._member(worker, variables, f"worker-{number}") for number in range(WORKERS)]
        retention = {**variables, "TIER_RETAIN_FOR": f"{RETAIN_SECONDS:.0f}s"}
        self.retainers = [self._member(_python("retainer"), retention, "retainer")]

    def _member(self, command: list[str], variables: Mapping[str, str], name: str) -> Member:
        return Member(command, variables, self._folder / f"{name}.log")

    def revive(self) -> None:
        """What a supervisor does."""
        for kind, members in (("agents", self.agents), ("workers", self.workers), ("retainers", self.retainers)):
            self.restarts[kind] += sum(member.revive() for member in members)

    def stop(self, kind: Callable[["Crew"], list[Member]]) -> None:
        """Tell them to end, all at once, and wait for each."""
        for member in kind(self):
            member.send(signal.SIGCONT)
            member.send(signal.SIGTERM)
        for member in kind(self):
            member.stop()


def _python(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"tests.faults.chaos.{module}", *map(str, arguments)]
