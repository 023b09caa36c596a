"""
Archive: bring what waits in the logs of a partition to Postgres.

Copy, commit, acknowledge (`saver/archive.py`), then trim. A thread that Postgres refuses is found by halving its batch
and set aside, and the others go on; any other failure ends the turn, with nothing acknowledged that is not committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.quarantine import DAMAGE, is_about_data, set_aside
from jobs.trim import trim
from jobs.turn import Turn
from saver.archive import Archived, archive
from saver.connect import Tiers
from saver.errors import ColdTierError

_CANCELLED = "57014"  # a statement took longer than it may


@dataclass(slots=True)
class ArchiveTurn:
    """What became of a partition."""

    threads: int = 0
    rows: int = 0
    size_bytes: int = 0
    trimmed_rows: int = 0
    quarantined: int = 0
    ghosts: int = 0
    contended: int = 0  # left to another worker, which was moving them
    is_done: bool = False  # nothing is due any more

    def add(self, archived: Archived) -> None:
        self.threads += archived.threads
        self.rows += archived.rows
        self.size_bytes += archived.size_bytes
        self.ghosts += archived.ghosts


async def archive_due(tiers: Tiers, partition: int) -> ArchiveTurn:
    """Archive the threads whose oldest unarchived row waited long enough. Raises HotTierError, ColdTierError."""
    done = ArchiveTurn()
    turn = Turn(tiers, tiers.keys.dirty(partition), tiers.config.archive_wait)
    async for names in turn:
        found = await archive_batch(tiers, names, done)
        # What another worker holds is left to it; what has rows left is offered again.
        turn.left |= set(names) - found.clean - found.partial
        done.trimmed_rows += await trim(tiers, found.clean)
    done.is_done = turn.is_done
    return done


async def archive_batch(tiers: Tiers, thread_ids: Sequence[str], done: ArchiveTurn) -> Archived:
    """Archive some threads and set those aside that cannot be. Raises HotTierError, ColdTierError."""
    try:
        found = await archive(tiers, thread_ids)
    except DAMAGE as error:
        is_refused = is_about_data(error)
        is_too_slow = isinstance(error, ColdTierError) and error.sqlstate == _CANCELLED
        if len(thread_ids) > 1 and (is_refused or is_too_slow):
            return await _halves(tiers, thread_ids, done)
        if not is_refused:
            raise
        done.quarantined += await set_aside(tiers, thread_ids[0], error)
        return Archived()
    done.add(found)
    done.contended += len(thread_ids) - len(found.clean) - len(found.partial)
    return found


async def _halves(tiers: Tiers, thread_ids: Sequence[str], done: ArchiveTurn) -> Archived:
    middle = len(thread_ids) // 2
    first = await archive_batch(tiers, thread_ids[:middle], done)
    second = await archive_batch(tiers, thread_ids[middle:], done)
    return Archived(clean=first.clean | second.clean, partial=first.partial | second.partial)
