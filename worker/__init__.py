"""
The worker process: schedule, wiring, metrics. `arq worker.Settings` runs it.

`Settings` is made when it is asked for, from the environment of that moment; importing this package does nothing.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Settings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from saver.errors import ConfigError
    from worker.settings import make_settings

    try:
        return make_settings()
    except ConfigError as error:
        # arq would print a traceback; the report alone says more.
        raise SystemExit(f"the worker cannot start: {error}") from None
