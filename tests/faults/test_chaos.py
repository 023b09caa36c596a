"""A short run of what `make chaos` does for minutes or hours."""

import subprocess
import sys

import pytest

from tests.faults.chaos.crew import REPOSITORY


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("minutes", "options"), [("0.6", []), ("0.4", ["--through"])], ids=["behind", "through"])
def test_nothing_acknowledged_is_lost_while_everything_fails(minutes: str, options: list[str]) -> None:
    command = [sys.executable, "-m", "tests.faults.chaos", "--minutes", minutes, "--seed", "11", *options]

    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=220)

    assert run.returncode == 0, run.stdout + run.stderr
