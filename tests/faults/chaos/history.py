"""What agents noted while they wrote, and what must be readable because of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Attempt:
    """A value that was sent; acknowledged, or nobody knows."""

    value: Any
    is_acknowledged: bool = False


@dataclass(slots=True)
class Expected:
    """What one thread must have, may have, and must not have."""

    number: int = 0
    puts: dict[str, Attempt] = field(default_factory=dict)  # by checkpoint id
    writes: dict[tuple[str, str], Attempt] = field(default_factory=dict)  # by checkpoint and task
    specials: dict[str, list[Attempt]] = field(default_factory=dict)  # by checkpoint, in order
    gone: set[str] = field(default_factory=set)  # acknowledged, then deleted for certain
    _doubted: set[str] = field(default_factory=set)

    @property
    def head(self) -> str:
        """The newest checkpoint that must be there."""
        return max((id_ for id_, put in self.puts.items() if put.is_acknowledged), default="")

    def begin(self, note: dict[str, Any]) -> Attempt:
        attempt = Attempt(note["value"])
        self.number = max(self.number, note["number"])
        match note["do"]:
            case "put":
                self.puts[note["id"]] = attempt
            case "write":
                self.writes[note["id"], note["task"]] = attempt
            case "special":
                self.specials.setdefault(note["id"], []).append(attempt)
            case "delete":
                self._doubt()
        return attempt

    def _doubt(self) -> None:
        """A delete has begun: until it is acknowledged, nobody knows whether anything before it is there."""
        self._doubted |= {id_ for id_, put in self.puts.items() if put.is_acknowledged}
        for attempt in (*self.puts.values(), *self.writes.values(), *(a for s in self.specials.values() for a in s)):
            attempt.is_acknowledged = False

    def deleted(self) -> None:
        self.gone |= self._doubted
        self._doubted.clear()
        self.puts.clear()
        self.writes.clear()
        self.specials.clear()


def expected(paths: Iterable[Path]) -> dict[str, Expected]:
    """Read the notes of agents. A note that was cut short belongs to a call that was never made."""
    threads: dict[str, Expected] = {}
    for path in paths:
        open_: dict[int, tuple[str, str, Attempt]] = {}
        for line in path.read_text().splitlines():
            try:
                note = json.loads(line)
            except ValueError:
                continue
            if "done" in note:
                thread_id, verb, attempt = open_.pop(note["done"])
                attempt.is_acknowledged = True
                if verb == "delete":
                    threads[thread_id].deleted()
            elif "do" in note:
                thread = threads.setdefault(note["thread"], Expected())
                open_[note["at"]] = (note["thread"], note["do"], thread.begin(note))
    return threads


class Notes:
    """Appends to a file that survives the process: before each call, and after it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._at = sum(1 for _ in path.open())
        self._file.write("\n")  # after a line that was cut short

    def begin(self, verb: str, thread_id: str, number: int, *, id_: str = "", task: str = "", value: Any = None) -> int:
        self._at += 1
        self._write(
            {"at": self._at, "do": verb, "thread": thread_id, "number": number, "id": id_, "task": task, "value": value}
        )
        return self._at

    def done(self, at: int) -> None:
        self._write({"done": at})

    def violation(self, kind: str, thread_id: str, told: str) -> None:
        self._write({"violation": kind, "thread": thread_id, "told": told})

    def _write(self, note: dict[str, Any]) -> None:
        self._file.write(json.dumps(note) + "\n")
        self._file.flush()


def violations_in(paths: Iterable[Path]) -> list[tuple[str, str, str]]:
    """What agents saw go wrong while they ran."""
    found = []
    for path in paths:
        for line in path.read_text().splitlines():
            if line.startswith('{"violation"'):
                note = json.loads(line)
                found.append((note["violation"], note["thread"], note["told"]))
    return found
