"""The data directory: made or checked, locked, and removed again when it is temporary."""

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worker.embedded.account import Account, choose_account
from worker.embedded.errors import EmbeddedError
from worker.embedded.lifeline import Lifeline

TEMPORARY_PREFIX = "tier-embedded-"


@dataclass(frozen=True)
class DataDirectory:
    """
    One instance of both servers on disk.

    `lock_fd` is inherited by every server process, so the directory counts as in use until the last of them is gone,
    whoever started them and however that ended.
    """

    path: Path
    account: Account | None
    lock_fd: int

    @property
    def cluster(self) -> Path:
        """Where PostgreSQL keeps everything."""
        return self.path / "postgres"

    @property
    def secret_file(self) -> Path:
        """Holds the password of both servers, readable by the account they run as."""
        return self.path / "secret"

    def secret(self) -> str:
        """The password of both servers; made at first use and kept with the data."""
        if self.secret_file.exists():
            return self.secret_file.read_text()
        if self.cluster.exists():
            raise EmbeddedError(
                f"the data directory {self.path} has a database but no file `secret`, so it was not made here or is "
                "damaged; choose another data directory"
            )
        password = secrets.token_urlsafe(18)
        unfinished = self.make_file("secret.new")
        unfinished.write_text(password)
        unfinished.rename(self.secret_file)
        return password

    def make_file(self, name: str) -> Path:
        """An empty file of the account that runs the servers, closed to everybody else."""
        file = self.path / name
        file.write_bytes(b"")
        if self.account:
            self.account.own(file)
        return file

    def make_directory(self, name: str) -> Path:
        """A directory of the account that runs the servers, closed to everybody else."""
        directory = self.path / name
        directory.mkdir(mode=0o700, exist_ok=True)
        if self.account:
            self.account.own(directory)
        return directory


@contextmanager
def open_data(path: Path | None, lifeline: Lifeline, caller_pid: int, deadline: float) -> Iterator[DataDirectory]:
    """A locked data directory: the given one, kept afterwards, or a temporary one, removed afterwards."""
    if path is None:
        temporary = _make_temporary()
        try:
            yield _lock(temporary, lifeline, caller_pid, deadline)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return
    try:
        _make(path)
        data = _lock(path, lifeline, caller_pid, deadline)
    except OSError as error:
        raise EmbeddedError(
            f"the data directory {path} cannot be used: {error.strerror}; choose another, or make it writable"
        ) from error
    yield data


def _make_temporary() -> Path:
    """A directory that the account of the servers can enter, also when TMPDIR is root's own."""
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]  # noqa: S108 - fallbacks, and mkdtemp makes them safe
    for place in places:
        path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=place)).resolve()
        account = choose_account(path)
        if account is None:
            return path
        account.own(path)
        if account.may_use(path):
            return path
        path.rmdir()
    raise EmbeddedError(f"root cannot run PostgreSQL, and none of {places} is open to others; set TMPDIR")


def _make(path: Path) -> None:
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    account = choose_account(path)
    if account is None:
        return
    if is_new:
        account.own(path)
    if not account.may_use(path):
        raise EmbeddedError(
            f"root cannot run PostgreSQL, so the servers run as {account.name}, which may not enter {path}; choose a "
            "data directory outside of private ones such as /root, or start as an ordinary user"
        )


def _lock(path: Path, lifeline: Lifeline, caller_pid: int, deadline: float) -> DataDirectory:
    """
    Take the directory, or say who has it.

    Servers whose caller has just died are about to end: that is worth a wait.
    """
    lock_fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def is_locked() -> bool:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock_fd, 32, 0).decode(errors="replace").strip()
            if holder.isdigit() and _is_alive(int(holder)):
                raise EmbeddedError(
                    f"the data directory {path} is in use by the servers of process {holder}; end that process, or "
                    "choose another data directory"
                ) from None
            return False
        return True

    lifeline.wait_for(is_locked, f"the end of the servers that still use {path}", deadline)
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, str(caller_pid).encode(), 0)
    account = choose_account(path)
    if account:
        account.own(path / "lock")
    return DataDirectory(path, account, lock_fd)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
