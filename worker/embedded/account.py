"""
Running as root: PostgreSQL refuses that, so the servers run as an ordinary account.

Nothing is added to the system and no permission is changed outside the data directory.
"""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from worker.embedded.errors import EmbeddedError

_PROGRAM_PARTS_NOT_NEEDED = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a", "doc", "man")


@dataclass(frozen=True)
class Account:
    """Who the servers run as, when it is not who started them."""

    name: str
    user_id: int
    group_id: int

    def own(self, *paths: Path) -> None:
        """Give these paths, not what is inside them, to the account."""
        for path in paths:
            os.chown(path, self.user_id, self.group_id, follow_symlinks=False)

    def may_use(self, path: Path) -> bool:
        """Whether the account can read and enter or execute the path. Asks the kernel, so ACLs count too."""
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(self.group_id)
                os.setuid(self.user_id)
                os._exit(0 if os.access(path, os.R_OK | os.X_OK) else 1)
            finally:
                os._exit(1)
        return os.waitpid(child, 0)[1] == 0


def choose_account(data_dir: Path) -> Account | None:
    """
    None for an ordinary user. For root: the owner of the data directory, or `nobody` where that is root too.

    So a data directory stays usable by the user it belongs to when root runs the servers for once.
    """
    if os.geteuid() != 0:
        return None
    status = data_dir.stat()
    if status.st_uid != 0:
        return Account(f"user {status.st_uid}", status.st_uid, status.st_gid)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedError(
            "root cannot run PostgreSQL, and this system has no account `nobody`; start as an ordinary user"
        ) from None
    return Account(nobody.pw_name, nobody.pw_uid, nobody.pw_gid)


def usable_programs(account: Account | None, postgres_bin: Path, redis_program: Path, place: Path) -> tuple[Path, Path]:
    """
    The same programs, at a path where the account may execute them.

    A virtual environment below /root is closed to everybody else: then the programs are linked, or copied where they
    cannot be linked, to `place`, with the layout in which they find their libraries.
    """
    if account is None:
        return postgres_bin, redis_program
    shutil.rmtree(place, ignore_errors=True)
    if not account.may_use(postgres_bin / "postgres"):
        installation = postgres_bin.parent
        package = installation.parent
        postgres_bin = _link_tree(installation, place / package.name / installation.name) / postgres_bin.name
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            _link_tree(libraries, place / libraries.name)
    if not account.may_use(redis_program):
        place.mkdir(mode=0o755, exist_ok=True)
        redis_program = Path(_link(str(redis_program), str(place / redis_program.name)))
    _open_directories(place)
    return postgres_bin, redis_program


def _link_tree(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True, copy_function=_link, ignore=_PROGRAM_PARTS_NOT_NEEDED)
    return target


def _link(source: str, target: str) -> str:
    """A hard link costs nothing; a copy where the file system or the file's own mode does not allow it."""
    mode = os.stat(source).st_mode  # noqa: PTH116 - copytree calls this with strings
    try:
        if mode & 0o004:
            os.link(source, target)
            return target
    except OSError:
        pass
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if mode & 0o100 else 0o644)
    return target


def _open_directories(place: Path) -> None:
    for directory, _, _ in os.walk(place):
        Path(directory).chmod(0o755)
