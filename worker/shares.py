"""Shares: no kind of work takes all jobs of a process, so a backlog of one never keeps out the other."""

from collections import Counter

Waiting = tuple[str, int | None]

_HOT = "hot"  # brings threads into Redis
_COLD = "cold"  # brings them to Postgres


def _kind(job: str) -> str:
    return _HOT if job == "promote" else _COLD


class Shares:
    """
    A quarter of the jobs of a process, at least one, is left to the other kind of work.

    What finds no room is put off, in order, and named again when a job of its kind ends. With a single job at once
    there is nothing to share.
    """

    def __init__(self, jobs: int = 10) -> None:
        self._most = max(1, jobs - max(1, jobs // 4))
        self._running: Counter[str] = Counter()
        self._put_off: dict[str, dict[Waiting, None]] = {_HOT: {}, _COLD: {}}

    def has_room(self, job: str, partition: int | None) -> bool:
        """Whether a job may begin; one that may not is noted once."""
        kind = _kind(job)
        if self._running[kind] < self._most:
            return True
        self._put_off[kind][job, partition] = None
        return False

    def take(self, job: str) -> None:
        """A job begins."""
        self._running[_kind(job)] += 1

    def give_back(self, job: str) -> Waiting | None:
        """A job ended; what was put off first is to be asked for again."""
        kind = _kind(job)
        self._running[kind] -= 1
        waiting = self._put_off[kind]
        if not waiting:
            return None
        first = next(iter(waiting))
        del waiting[first]
        return first
