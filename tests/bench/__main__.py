"""
`make bench`: all contestants in one run, in rounds, so that a noisy moment meets them all.

Read the ratios: they compare within one round. Progress goes to standard error, the tables to standard output.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from tests.bench.contestants import CONTESTANTS, Urls
from tests.bench.load import MESSAGES_OF_STATE
from tests.bench.modules import redis_with_modules
from tests.bench.peers import Absent, Runner, python_of
from tests.bench.report import Cell, Results, machine, medians, ratios
from worker.embedded import Embedded

COUNTS = {
    "aput": 60, "aput_writes": 60, "aget": 60, "alist": 10, "steps": 12, "nodes": 1,
    "blocking_turn": 40, "async_turn": 40,
}  # fmt: skip
ONLY_OURS = ("blocking_turn", "async_turn")
NO_GRAPH = ("floor", "plain", "shared")  # they keep no state that a graph could go on from


def cells_of(size: str) -> list[Cell]:
    """The columns of one table: the graph stands in the first, its state has a size of its own."""
    measures = ("aput", "aput_writes", "aget", "alist", "steps")
    return [*((measure, size) for measure in measures), *([("nodes", "4 KB")] if size == "4 KB" else [])]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress of a command


@contextmanager
def _runners(names: Sequence[str], absent: dict[str, str]) -> Iterator[dict[str, Runner]]:
    """Every contestant that can be had, with servers of their own."""
    with ExitStack() as stack:
        servers = stack.enter_context(Embedded())
        runners: dict[str, Runner] = {}
        for name in names:
            _say(f"opening {name}")
            try:
                url = servers.redis_url
                if CONTESTANTS[name].needs_modules:
                    python_of(name, CONTESTANTS[name])
                    url = stack.enter_context(redis_with_modules(name))
                runners[name] = Runner(name, Urls(url, servers.postgres_url))
                stack.callback(runners[name].close)
            except Absent as reason:
                absent[name] = str(reason)
        yield runners


def _takes_part(name: str, measure: str) -> bool:
    return name == "tiered" if measure in ONLY_OURS else measure != "nodes" or name not in NO_GRAPH


def _round(runners: dict[str, Runner], cells: Sequence[Cell], part: float, results: Results) -> dict[str, str]:
    """Every cell of every contestant once. Returns who fell out, and why."""
    fallen: dict[str, str] = {}
    for measure, size in cells:
        count = max(1, round(COUNTS[measure] * part))
        for name in random.sample(list(runners), len(runners)):
            if name in fallen or not _takes_part(name, measure):
                continue
            try:
                values = runners[name].measure(measure, MESSAGES_OF_STATE[size], count)
            except Absent as reason:
                fallen[name] = f"from {measure} on: {reason}"
            else:
                results.add(name, (measure, size), median(values))
    return fallen


def run(names: Sequence[str], sizes: Sequence[str], rounds: int, part: float) -> str:
    """All rounds; returns the report."""
    absent: dict[str, str] = {}
    results = Results()
    own: list[Cell] = [(measure, sizes[0]) for measure in ONLY_OURS]
    with _runners(names, absent) as runners:
        versions = {name: runner.version for name, runner in runners.items()}
        for number in range(rounds):
            _say(f"round {number + 1} of {rounds}")
            fallen = _round(runners, [*(cell for size in sizes for cell in cells_of(size)), *own], part, results)
            absent |= fallen
            for name in fallen:
                del runners[name]
    titles = {name: CONTESTANTS[name].title for name in versions}
    said = [f"{rounds} rounds, {machine()}", _lines(f"- {CONTESTANTS[n].package} {v}" for n, v in versions.items())]
    for size in sizes:
        cells = cells_of(size)
        said.append(f"State of {size}: p50 in ms (least to most of the rounds)\n\n" + medians(results, titles, cells))
        said += [ratios(results, titles, base, cells) for base in ("floor", "memory") if base in titles]
    if "tiered" in titles:
        said.append("One task, both families\n\n" + medians(results, {"tiered": titles["tiered"]}, own))
    said += [f"Absent: {CONTESTANTS[name].title}: {reason}" for name, reason in absent.items()]
    return "\n\n".join(said)


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(dict.fromkeys(lines))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", type=float, default=1.0, help="fraction of the calls of each measure, to be quicker")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="NAME")
    parser.add_argument("--sizes", nargs="+", choices=MESSAGES_OF_STATE, default=list(MESSAGES_OF_STATE))
    chosen = parser.parse_args()
    print(run(chosen.only, chosen.sizes, chosen.rounds, chosen.part))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
