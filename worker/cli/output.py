"""What people read: tables on standard output, messages and progress on standard error."""

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_WIDTH_OF_A_PIPE = 200
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def result() -> Console:
    """Standard output; a pipe gets wide lines, which nothing cuts."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_A_PIPE)


def message(text: str) -> None:
    """One line on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"tier: {text}"))


def print_json(value: Any) -> None:
    """The value as JSON on standard output, for programs."""
    Console(highlight=False, soft_wrap=True).print(Text(json.dumps(value, indent=2)))


def table(*titles: str, title: str | None = None) -> Table:
    """An empty table; the first column is text, the others are numbers unless added otherwise."""
    made = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(titles):
        made.add_column(name, overflow="fold", justify="left" if number == 0 else "right")
    return made


def row(into: Table, cells: Iterable[object]) -> None:
    """Add a row; what is in a cell is text, never markup."""
    into.add_row(*(Text("-" if cell is None else str(cell)) for cell in cells))


def shown(name: str) -> str:
    """An id or a namespace as it is, or quoted when it holds what would move the cursor or cannot be seen."""
    return name if name.isprintable() and name else ascii(name)


def threads(count: int) -> str:
    """How many threads, as one says it."""
    return "1 thread" if count == 1 else f"{count} threads"


def size(size_bytes: int | None) -> str | None:
    """About how many bytes: 812 B, 4.2 KiB, 1.3 GiB."""
    if size_bytes is None:
        return None
    amount, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def ago(age: timedelta | None) -> str | None:
    """About how long: 0.4 s, 12 s, 5 min, 3 d."""
    if age is None:
        return None
    seconds = max(age.total_seconds(), 0.0)
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def progress() -> Progress:
    """A bar on standard error, which only a terminal shows."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
