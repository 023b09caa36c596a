"""`tier doctor`: what is wrong, what comes of it, and what to do."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.text import Text

from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig
from worker.doctor.checkup import check_up
from worker.doctor.report import Report


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool) -> None:
    """Check servers, rights, clocks and versions; say what to mend.

    Nothing is changed. Exit code 1 when there is anything to mend.
    """
    quiet_pool()
    reports = asyncio.run(check_up(WorkerConfig.load()))
    findings = sum(len(report.findings) for report in reports)
    if as_json:
        output.print_json({"findings": findings, "reports": [asdict(report) for report in reports]})
    else:
        _print(reports)
        click.echo("nothing to mend" if not findings else f"{findings} to mend")
    if findings:
        sys.exit(FOUND)


def _print(reports: Sequence[Report]) -> None:
    console = output.result()
    for report in reports:
        console.print(Text(report.subject, style="bold"))
        for fact in report.facts:
            console.print(Text(f"  ok      {fact}"))
        for what in report.unseen:
            console.print(Text(f"  unseen  {what}"))
        for finding in report.findings:
            console.print(Text(f"  mend    {finding.fact}", style="red"))
            console.print(Text(f"          then: {finding.consequence}"))
            console.print(Text(f"          do:   {finding.next_step}"))
