"""A short run of what `make chaos` does for minutes or hours."""

import subprocess
import sys

import pytest

from tests.faults.chaos.crew import REPOSITORY


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_while_everything_fails() -> None:
    command = [sys.executable, "-m", "tests.faults.chaos", "--minutes", "0.5", "--seed", "11"]

    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=220)

    assert run.returncode == 0, run.stdout + run.stderr
