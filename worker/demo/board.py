"""What people see while the demo runs: a live table, or plain lines where there is no terminal."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.demo.ledger import Ledger

TABLE_EVERY_SECONDS = 0.5
LINE_EVERY_SECONDS = 3.0

Numbers = dict[str, float]

_COLUMNS = (
    ("hot", "threads"),
    ("cold", "cold_threads"),
    ("dirty", "dirty_threads"),
    ("oldest dirty", "oldest_dirty_seconds"),
    ("wanted", "wanted_threads"),
    ("archived", "tier_archived_threads_total"),
    ("demoted", "tier_demoted_threads_total"),
    ("promoted", "tier_promoted_threads_total"),
)


class Board:
    """Shows the numbers of the worker and what the agents tell."""

    def __init__(self, console: Console, ledger: Ledger, read: Callable[[], Awaitable[Numbers]], ends: str) -> None:
        self.numbers: Numbers = {}
        self._console = console
        self._ledger = ledger
        self._read = read
        self._ends = ends

    async def watch(self, over: asyncio.Event) -> None:
        """Show them until it is over."""
        with self._shown() as show:
            every = TABLE_EVERY_SECONDS if self._console.is_terminal else LINE_EVERY_SECONDS
            while not over.is_set():
                await self.look()
                show()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(every):
                        await over.wait()
            await self.look()
            show()

    async def look(self) -> None:
        """Take the newest numbers; keep the last ones while the worker does not answer."""
        self.numbers = await self._read() or self.numbers

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Callable[[], None]]:
        if self._console.is_terminal:
            with Live(self._table(), console=self._console, auto_refresh=False, transient=True) as live:
                yield lambda: live.update(self._table(), refresh=True)
        else:
            yield self._line

    def _cells(self) -> Iterator[tuple[str, str]]:
        for title, name in _COLUMNS:
            value = self.numbers.get(name, 0.0)
            yield title, f"{value:.1f} s" if name.endswith("_seconds") else f"{value:.0f}"
        yield "compared", str(self._ledger.compared)
        yield "different", str(len(self._ledger.different))

    def _line(self) -> None:
        numbers = "  ".join(f"{title} {value}" for title, value in self._cells())
        self._console.print(f"{self._ledger.seconds:5.1f} s  {numbers}", soft_wrap=True)

    def _table(self) -> Group:
        numbers = Table(title=f"threads after {self._ledger.seconds:.0f} s; {self._ends}", title_justify="left")
        cells = list(self._cells())
        for title, _ in cells:
            numbers.add_column(title, justify="right")
        numbers.add_row(*(value for _, value in cells))
        return Group(numbers, *(Text(event, no_wrap=True) for event in self._ledger.events))
