"""`tier demo`: watch it work, with nothing installed but Python packages."""

import signal
import sys

import click
from rich.console import Console

from worker.cli import FOUND, MISUSE, output
from worker.embedded import EmbeddedError

SECONDS = 60.0


@click.command()
@click.option("--seconds", type=click.FloatRange(1, 86_400), default=SECONDS, show_default=True,
              help="How long the agents work.")  # fmt: skip
@click.option("--forever", is_flag=True, help="Go on until Ctrl-C.")
def demo(seconds: float, forever: bool) -> None:
    """Watch real agents and a worker move threads between two private servers.

    Everything that is read back is compared with what was written. Exit code 1 if any value differed, or if no thread
    was archived, demoted or promoted. Nothing is left behind.
    """
    try:
        import langgraph.graph  # noqa: F401
        from arq import worker  # noqa: F401
    except ModuleNotFoundError as error:
        output.message(
            f"the demo needs {error.name}; run: pip install langgraph 'langgraph-checkpoint-tiered[worker,embedded]'"
        )
        sys.exit(MISUSE)
    from worker.demo.play import play

    console = Console(highlight=False)
    # Until the agents take signals over, a polite kill is a Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcome = play(console, None if forever else seconds)
    except EmbeddedError as error:
        output.message(str(error))
        sys.exit(FOUND)
    ledger, numbers = outcome.ledger, outcome.numbers
    for line in (
        f"After {ledger.seconds:.0f} s:",
        f"  {ledger.turns} turns in {ledger.threads} threads, {ledger.deleted} of them deleted",
        *(
            f"  {numbers.get(f'tier_{name}_threads_total', 0):.0f} times a thread was {name}"
            for name in ("archived", "demoted", "promoted")
        ),
        f"  {ledger.returns} returns to archived threads, {ledger.resumed} interrupts resumed from Postgres",
        f"  {ledger.compared} values compared, {ledger.compared_by_stock} of them read by the stock Postgres saver",
        f"  {len(ledger.different)} different",
    ):
        console.print(line, soft_wrap=True)
    for fault in outcome.faults:
        output.message(fault)
    if outcome.faults:
        sys.exit(FOUND)
