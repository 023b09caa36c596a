"""`tier config`: the configuration in force."""

import click

from worker.cli import output
from worker.config import WorkerConfig


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def config(as_json: bool) -> None:
    """Show the configuration in force, secrets hidden."""
    effective = WorkerConfig.load().effective()
    if as_json:
        output.print_json(effective)
        return
    width = max(map(len, effective))
    for name, value in effective.items():
        click.echo(f"{name:<{width}}  {value}")
