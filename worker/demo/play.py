"""Play the demo: start everything, let the agents work, look at what came of it, stop everything in reverse."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.console import Console

from saver.connect import Tiers, connect
from saver.survey import cold_threads, survey_hot
from saver.tiered import TieredSaver
from worker.config import WorkerConfig
from worker.demo.agents import APPROVERS, CUSTOMERS, Stage, approver, customer
from worker.demo.audit import audit, settled
from worker.demo.board import Board, Numbers
from worker.demo.ledger import Ledger
from worker.demo.worker_process import WorkerProcess
from worker.embedded import Embedded

SETTLES_SECONDS = 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
THRESHOLDS = {"archive_after": "1s", "demote_after": "4s", "hot_checkpoints": "4", "partitions": "8"}


@dataclass(slots=True)
class Outcome:
    """What the demo came to."""

    ledger: Ledger
    numbers: Numbers
    faults: list[str]


def play(console: Console, seconds: float | None) -> Outcome:
    """Run for some seconds, or until Ctrl-C. Raises EmbeddedError or TierError when something does not start."""
    with ExitStack() as stack:
        console.print("Starting a private Redis, a private Postgres and a worker ...")
        servers = stack.enter_context(Embedded(durable=True))
        values = {"redis_url": servers.redis_url, "postgres_url": servers.postgres_url, **THRESHOLDS}
        # The TIER_ variables of whoever runs the demo speak of other servers.
        apart: dict[str, Any] = {"_env_prefix": "NOT_READ_", **values}
        config = WorkerConfig(**apart)
        variables = {f"TIER_{name.upper()}": value for name, value in values.items()}
        worker = stack.enter_context(WorkerProcess(variables, servers.data_dir / "worker.log"))
        _introduce(console, servers, worker)
        return asyncio.run(_play(console, config, worker, seconds))


async def _play(console: Console, config: WorkerConfig, worker: WorkerProcess, seconds: float | None) -> Outcome:
    ledger = Ledger()
    async with connect(config) as tiers:
        ends = f"ends after {seconds:g} s" if seconds else "Ctrl-C ends it"
        board = Board(console, ledger, partial(_numbers, tiers, worker), ends)
        is_cut_short, faults = await _act(config, ledger, board, seconds)
        if not is_cut_short:
            console.print("The agents are done; everything is archived and read once more ...")
            faults += await _look_back(tiers, worker, ledger)
            await board.look()
            faults += _missing(ledger, board.numbers)
    return Outcome(ledger, board.numbers, [*ledger.different, *faults])


async def _numbers(tiers: Tiers, worker: WorkerProcess) -> Numbers:
    """Counters from the worker, the rest from the tiers themselves: a scrape may be some seconds old."""
    hot = await survey_hot(tiers)
    counters = await asyncio.to_thread(worker.metrics)
    return counters and {**counters, **asdict(hot), "cold_threads": await cold_threads(tiers)}


async def _act(config: WorkerConfig, ledger: Ledger, board: Board, seconds: float | None) -> tuple[bool, list[str]]:
    """The agents at work, until each has finished what it was doing at the end. Also whether somebody cut it short."""
    over, is_done, cut_short = asyncio.Event(), asyncio.Event(), asyncio.Event()
    agents: list[asyncio.Task[None]] = []

    def cut() -> None:
        cut_short.set()
        over.set()
        for agent in agents:
            agent.cancel()

    watching = asyncio.create_task(board.watch(is_done))
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, over.set)
    try:
        with _on_signals(cut):
            async with TieredSaver(config) as saver:
                stage = Stage(config, saver, ledger, over)
                agents += [asyncio.create_task(customer(stage, name)) for name in CUSTOMERS]
                agents += [asyncio.create_task(approver(stage, name)) for name in APPROVERS]
                ended = await asyncio.gather(*agents, return_exceptions=True)
    finally:
        is_done.set()
        await watching
    return cut_short.is_set(), [
        f"an agent failed with {type(end).__name__}: {end}" for end in ended if isinstance(end, Exception)
    ]


async def _look_back(tiers: Tiers, worker: WorkerProcess, ledger: Ledger) -> list[str]:
    if worker.has_ended:
        return [f"the worker ended; its log ends with:\n{worker.last_words()}"]
    if not await settled(tiers, SETTLES_SECONDS):
        return [f"something was not archived {SETTLES_SECONDS:g} s after the last write"]
    await audit(tiers.config, ledger)
    return []


def _missing(ledger: Ledger, numbers: Numbers) -> list[str]:
    happened = {
        "archived": numbers.get("tier_archived_threads_total", 0),
        "demoted": numbers.get("tier_demoted_threads_total", 0),
        "promoted": numbers.get("tier_promoted_threads_total", 0),
        "resumed after it was archived": ledger.resumed,
        "read again after it was archived": ledger.returns,
    }
    return [f"no thread was {what}" for what, times in happened.items() if not times]


def _introduce(console: Console, servers: Embedded, worker: WorkerProcess) -> None:
    for name, url in (("metrics", worker.url), ("redis", servers.redis_url), ("postgres", servers.postgres_url)):
        console.print(f"  {name:<9} {url}", soft_wrap=True)
    console.print(
        f"{len(CUSTOMERS) + len(APPROVERS)} agents write; a thread is archived {THRESHOLDS['archive_after']} after a "
        f"write and leaves Redis {THRESHOLDS['demote_after']} after its last use.",
        soft_wrap=True,
    )


@contextmanager
def _on_signals(cut: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and a polite kill end the agents where they are; everything else is closed as always."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, cut)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
