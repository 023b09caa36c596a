"""What agents noted while they wrote, and what must be readable because of it."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RETAIN_SECONDS = 12.0
SLACK_SECONDS = 1.0  # between the clock of the notes and those of the servers

Note = dict[str, Any]


@dataclass(slots=True)
class Attempt:
    """A value that was sent; acknowledged, or nobody knows."""

    note: Note
    is_acknowledged: bool = False
    is_doubtful: bool = False  # something else at the same time may have deleted it
    era: int | None = None  # retention may have deleted all of an era, and never a part of it
    spoiled: dict[str, "Attempt"] = field(default_factory=dict)  # what was there when this delete, prune or copy began

    @property
    def value(self) -> Any:
        return self.note["value"]

    @property
    def is_required(self) -> bool:
        return self.is_acknowledged and self.era is None


@dataclass(slots=True)
class Expected:
    """What one thread must have, may have, and must not have."""

    number: int = 0
    least: str = ""  # the newest checkpoint is this one or a newer one
    puts: dict[str, Attempt] = field(default_factory=dict)  # by checkpoint id
    writes: dict[tuple[str, str], Attempt] = field(default_factory=dict)  # by checkpoint and task
    specials: dict[str, list[Attempt]] = field(default_factory=dict)  # by checkpoint, in order
    gone: set[str] = field(default_factory=set)  # acknowledged, then deleted for certain
    eras: int = 0
    _deleting: int = 0
    _touched_at: float | None = None  # when the last acknowledged write began

    # ---- a call begins, and ends

    def begin(self, note: Note) -> Attempt:
        attempt = Attempt(note, is_doubtful=self._deleting > 0)
        self.number = max(self.number, note["number"])
        match note["do"]:
            case "put":
                self.puts[note["id"]] = attempt
            case "write":
                self.writes[note["id"], note["task"]] = attempt
            case "special":
                self.specials.setdefault(note["id"], []).append(attempt)
            case "delete":
                self._deleting += 1
                attempt.spoiled = self._acknowledged()
                self._doubt(self._all())
                self.least = ""
            case "prune":
                self.pass_time(note["time"])
                attempt.spoiled = self._acknowledged()
                attempt.spoiled.pop(max(attempt.spoiled, default=""), None)
                # Also the newest of those acknowledged, when one that was not acknowledged is there and newer.
                self._doubt(self.puts.values())
        return attempt

    def done(self, attempt: Attempt, at: float) -> None:
        match attempt.note["do"]:
            case "delete":
                self._deleting -= 1
                self.gone |= set(attempt.spoiled)
                self.puts.clear()
                self.writes.clear()
                self.specials.clear()
            case "prune":
                self.pass_time(at)
                self.gone |= set(attempt.spoiled)
                for id_ in attempt.spoiled:
                    self.puts.pop(id_, None)
            case "copy":
                self.puts |= {id_: Attempt(put.note, True) for id_, put in attempt.spoiled.items()}
                self.least = max(attempt.spoiled, default="")
                self._touched_at = attempt.note["source_touched_at"]
                self.pass_time(at)
            case _:
                self.pass_time(at)
                self._touched_at = attempt.note["time"]
                self._acknowledge(attempt)

    def failed(self, attempt: Attempt) -> None:
        """It raised an error, or its process is no more."""
        self._deleting -= attempt.note["do"] == "delete"

    def pass_time(self, now: float) -> None:
        """Nobody wrote for so long that retention may have deleted the thread."""
        if self._touched_at is None or now - self._touched_at < RETAIN_SECONDS - SLACK_SECONDS:
            return
        for put in self.puts.values():
            if put.is_required:
                put.era = self.eras
        self.eras += 1
        self.least = ""

    def to_copy(self, note: Note) -> Note:
        """What is known of this thread when a copy of it begins."""
        self.pass_time(note["time"])
        return {**note, "source_touched_at": self._touched_at}

    def certain(self) -> dict[str, Attempt]:
        """What a copy must have; nothing when nobody knows what is there."""
        is_certain = all(put.is_required for put in self.puts.values())
        return dict(self.puts) if is_certain else {}

    # ---- private

    def _acknowledge(self, attempt: Attempt) -> None:
        if attempt.is_doubtful:
            return
        attempt.is_acknowledged = True
        if attempt.note["do"] == "put":
            self.least = max(self.least, attempt.note["id"])

    def _acknowledged(self) -> dict[str, Attempt]:
        return {id_: put for id_, put in self.puts.items() if put.is_acknowledged}

    def _all(self) -> Iterator[Attempt]:
        yield from self.puts.values()
        yield from self.writes.values()
        for attempts in self.specials.values():
            yield from attempts

    def _doubt(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            attempt.is_acknowledged, attempt.is_doubtful = False, True


class Ledger:
    """The threads that notes tell of, event by event."""

    def __init__(self) -> None:
        self.threads: dict[str, Expected] = {}

    def begin(self, note: Note) -> Attempt:
        thread = self.threads.setdefault(note["thread"], Expected())
        if note["do"] != "copy":
            return thread.begin(note)
        source = self.threads.setdefault(note["source"], Expected())
        attempt = thread.begin(source.to_copy(note))
        attempt.spoiled = source.certain()
        return attempt

    def done(self, attempt: Attempt, at: float) -> None:
        self.threads[attempt.note["thread"]].done(attempt, at)

    def failed(self, attempt: Attempt) -> None:
        self.threads[attempt.note["thread"]].failed(attempt)


def read_notes(paths: Iterable[Path]) -> Ledger:
    """Replay the notes of all agents in the order of their time. A line that was cut short tells of nothing."""
    ledger = Ledger()
    open_: dict[Path, dict[int, Attempt]] = {}
    for path, note in sorted(_lines(paths), key=lambda line: line[1].get("time", 0.0)):
        waiting = open_.setdefault(path, {})
        if "do" in note:
            waiting[note["at"]] = ledger.begin(note)
        elif "done" in note:
            ledger.done(waiting.pop(note["done"]), note["time"])
        elif "failed" in note:
            ledger.failed(waiting.pop(note["failed"]))
        elif "opened" in note:
            for attempt in waiting.values():
                ledger.failed(attempt)
            waiting.clear()
    return ledger


def _lines(paths: Iterable[Path]) -> Iterator[tuple[Path, Note]]:
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                yield path, json.loads(line)
            except ValueError:
                continue


class Notes:
    """Appends to a file that survives the process: before each call, and after it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._at = sum(1 for _ in path.open())
        self._file.write("\n")  # after a line that was cut short
        self._write({"opened": self._at})

    def begin(self, note: Note) -> Note:
        self._at += 1
        return self._write({"at": self._at, **note})

    def done(self, note: Note) -> float:
        at: float = self._write({"done": note["at"]})["time"]
        return at

    def failed(self, note: Note) -> None:
        self._write({"failed": note["at"]})

    def violation(self, kind: str, thread_id: str, told: str) -> None:
        self._write({"violation": kind, "thread": thread_id, "told": told})

    def _write(self, note: Note) -> Note:
        note["time"] = time.monotonic()  # the same for all processes
        self._file.write(json.dumps(note) + "\n")
        self._file.flush()
        return note


def violations_in(paths: Iterable[Path]) -> list[tuple[str, str, str]]:
    """What agents saw go wrong while they ran."""
    return [(note["violation"], note["thread"], note["told"]) for _, note in _lines(paths) if "violation" in note]


def acknowledged_in(paths: Iterable[Path]) -> dict[str, int]:
    """How many calls of each kind were acknowledged."""
    kinds: dict[tuple[Path, int], str] = {}
    counts: dict[str, int] = {}
    for path, note in _lines(paths):
        if "do" in note:
            kinds[path, note["at"]] = note["do"]
        elif "done" in note:
            kind = kinds[path, note["done"]]
            counts[kind] = counts.get(kind, 0) + 1
    return counts
