"""Rounds to tables: medians with their spread, and ratios of the same round."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.bench.measures import RATES

Cell = tuple[str, str]  # measure, size of the state


@dataclass
class Results:
    """The median of every round, by contestant and cell; a round without an answer is None."""

    rounds: dict[tuple[str, Cell], list[float | None]] = field(default_factory=dict)

    def add(self, name: str, cell: Cell, value: float | None) -> None:
        self.rounds.setdefault((name, cell), []).append(value)

    def values(self, name: str, cell: Cell) -> list[float]:
        return [value for value in self.rounds.get((name, cell), []) if value is not None]

    def ratio(self, name: str, other: str, cell: Cell) -> float | None:
        """Median of the ratios within each round."""
        pairs = zip(self.rounds.get((name, cell), []), self.rounds.get((other, cell), []), strict=False)
        ratios = [own / its for own, its in pairs if own is not None and its]
        return median(ratios) if ratios else None


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


TITLES = {
    "aput": "aput",
    "aput_writes": "aput_writes",
    "aget": "aget_tuple latest",
    "alist": "alist(10)",
    "steps": "put+writes steps/s, 16 tasks",
    "nodes": "5-node graph, node steps/s, 16 at once",
    "blocking_turn": "put, put_writes, get_tuple: blocking",
    "async_turn": "the same: async",
}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def medians(results: Results, titles: dict[str, str], cells: Sequence[Cell]) -> str:
    """p50 of each cell with the least and the most of all rounds: milliseconds, or per second where it says so."""
    rows = []
    for name, title in titles.items():
        row = [title]
        for cell in cells:
            values = results.values(name, cell)
            spread = f"{_number(min(values))} to {_number(max(values))}" if values else ""
            row.append(f"{_number(median(values))} ({spread})" if values else "-")
        rows.append(row)
    return table(["", *(TITLES[measure] for measure, _ in cells)], rows)


def ratios(results: Results, titles: dict[str, str], other: str, cells: Sequence[Cell]) -> str:
    """Each cell in proportion to one contestant, the median of the rounds. Of rates (+) more is better, else less."""
    rows = []
    for name, title in titles.items():
        found = [results.ratio(name, other, cell) for cell in cells]
        rows.append([title, *(_number(r) if r else "-" for r in found)])
    return table([f"x {titles[other]}", *(TITLES[c[0]] + (" +" if c[0] in RATES else "") for c in cells)], rows)


def machine() -> str:
    """What ran this, without its name."""
    system = f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}"
    return f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"
