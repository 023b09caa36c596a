"""`python -m worker.embedded`: both servers until Ctrl-C, their URLs as lines for a shell."""

import argparse
import signal
import sys
from types import FrameType

from worker.embedded.errors import EmbeddedError
from worker.embedded.launch import Embedded


def main() -> int:
    """Print the URLs once both servers answer, then wait."""
    parser = argparse.ArgumentParser(prog="python -m worker.embedded", description=__doc__)
    parser.add_argument("--data-dir", help="keep the data there; without it everything is temporary")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Embedded(arguments.data_dir) as servers:
            sys.stdout.write(f"export TIER_REDIS_URL='{servers.redis_url}'\n")
            sys.stdout.write(f"export TIER_POSTGRES_URL='{servers.postgres_url}'\n")
            sys.stdout.flush()
            sys.stderr.write(f"Redis and Postgres run from {servers.data_dir}; Ctrl-C ends them.\n")
            servers.wait()
    except KeyboardInterrupt:
        return 0
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write("The servers ended by themselves; start them again.\n")
    return 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
