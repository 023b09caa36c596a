"""
`make bench-plot`: cost against growth, as a picture: hot threads, checkpoints of a thread, size of the state.

Each point is the best of some rounds of the median, which a busy machine disturbs least. Matplotlib stands in an
environment of its own; this file runs there too, to draw.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

PICTURE = Path(__file__).parents[2] / "deploy" / "growth.svg"
MATPLOTLIB = ("matplotlib>=3.9,<4",)
THREADS = (1_000, 10_000, 100_000, 1_000_000)
HISTORY = (10, 30, 100, 300, 1_000)
MESSAGES = (2, 10, 100, 1_000, 10_000)
BYTES_OF_MESSAGE = 430
FOUR_KB = 10
ROUNDS, CALLS = 7, 40
PANELS = {"threads": "hot threads", "history": "checkpoints of the thread", "state": "size of the state, bytes"}

Lines = dict[str, list[tuple[float, float]]]  # by name: x and milliseconds


# ---- measuring


async def _best(measure: Any, saver: Any, messages: int, calls: int) -> float:
    rounds: list[float] = [median(await measure(saver, messages, calls)) for _ in range(ROUNDS)]
    return min(rounds)


async def _threads(stack: AsyncExitStack, most: int) -> Lines:
    from tests.bench import growth, measures

    saver, tiers = await growth.opened(stack)
    rows, filled = growth.one_checkpoint(saver), 0
    lines: Lines = {"put": [], "get": [], "sweep, nothing due": []}
    for many in (number for number in THREADS if number <= most):
        await growth.fill(tiers, rows, many - filled)
        filled = many
        lines["put"].append((many, await _best(measures.aput, saver, FOUR_KB, CALLS)))
        lines["get"].append((many, await _best(measures.aget, saver, FOUR_KB, CALLS)))
        lines["sweep, nothing due"].append((many, min([await growth.sweep(tiers) for _ in range(ROUNDS)])))
    return lines


async def _history(stack: AsyncExitStack) -> Lines:
    from tests.bench import growth, measures

    saver, _ = await growth.opened(stack)
    lines: Lines = {"put": [], "get": [], "list of 10": []}
    for many in HISTORY:
        thread = await measures.grown(saver, FOUR_KB, many)
        took: dict[str, list[float]] = {name: [] for name in lines}
        for _ in range(ROUNDS):
            took["put"].append(median(await measures.puts(thread, saver, 10)))
            took["get"].append(median(await measures.gets(thread, saver, 10)))
            took["list of 10"].append(median(await measures.lists(thread, saver, 5)))
        for name, values in took.items():
            lines[name].append((many, min(values)))
    return lines


async def _state(stack: AsyncExitStack) -> Lines:
    from tests.bench import growth, measures

    saver, _ = await growth.opened(stack)
    lines: Lines = {"put": [], "get": []}
    for messages in MESSAGES:
        size, calls = messages * BYTES_OF_MESSAGE, max(3, CALLS // max(1, messages // 100))
        lines["put"].append((size, await _best(measures.aput, saver, messages, calls)))
        lines["get"].append((size, await _best(measures.aget, saver, messages, calls)))
    return lines


async def measured(most: int) -> dict[str, Lines]:
    """All lines of all panels; each panel has servers of its own."""
    steps: dict[str, Callable[[AsyncExitStack], Any]] = {
        "threads": lambda stack: _threads(stack, most),
        "history": _history,
        "state": _state,
    }
    found = {}
    for name, step in steps.items():
        async with AsyncExitStack() as stack:
            found[name] = await step(stack)
    return found


# ---- drawing


def draw(panels: dict[str, Any], path: str) -> None:
    """Runs in the environment that has Matplotlib."""
    import matplotlib  # type: ignore[import-not-found]

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(11, 3.4), layout="constrained")
    for axis, (name, lines) in zip(axes, panels.items(), strict=True):
        for title, points in lines.items():
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=title)
        axis.set(xscale="log", yscale="log", xlabel=PANELS[name], ylabel="milliseconds" if name == "threads" else "")
        if name != "state":
            axis.set_ylim(0.1, 100)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})


def _table(panels: dict[str, Lines]) -> str:
    from tests.bench.report import machine, table

    rows = [
        [PANELS[name], title, ", ".join(f"{x:g}: {y:.2f}" for x, y in points)]
        for name, lines in panels.items()
        for title, points in lines.items()
    ]
    return f"{machine()}\n\n{table(['', '', 'ms'], rows)}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="make bench-plot", description=__doc__)
    parser.add_argument("--threads", type=int, default=1_000_000, help="the most hot threads; fewer are quicker")
    parser.add_argument("--draw", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.draw:
        draw(json.load(sys.stdin), chosen.draw)
        return
    from tests.bench.peers import environment

    python = environment("plot", MATPLOTLIB)
    panels = asyncio.run(measured(chosen.threads))
    print(_table(panels))  # noqa: T201 - the result of a command
    subprocess.run(
        [str(python), str(Path(__file__)), "--draw", str(PICTURE)], input=json.dumps(panels), text=True, check=True
    )


if __name__ == "__main__":
    main(sys.argv[1:])
