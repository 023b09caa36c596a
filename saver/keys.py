"""
Where a thread lives in Redis: the only place that spells a key.

| key                                  | type   | content                                         | lifetime           |
|--------------------------------------|--------|-------------------------------------------------|--------------------|
| `<prefix>:{pNNN}:thread:<thread id>` | hash   | state and rows (fields: `lua/state.lua`)        | until evicted      |
| `<prefix>:{pNNN}:log:<thread id>`    | list   | names of rows that are not in Postgres yet      | until archived     |
| `<prefix>:{pNNN}:token:<thread id>`  | string | load token                                      | until evicted      |
| `<prefix>:{pNNN}:run:<thread id>`    | string | history and token of the run that holds it      | while it is held   |
| `<prefix>:{pNNN}:dirty`              | zset   | thread -> moment of its oldest row not archived | until archived     |
| `<prefix>:{pNNN}:idle`               | zset   | thread -> moment of its last access             | until evicted      |
| `<prefix>:{pNNN}:wanted`             | zset   | thread -> moment it was asked for               | until promoted     |
| `<prefix>:{pNNN}:quarantine`         | hash   | thread -> why Postgres refused it, since when   | until archived     |
| `<prefix>:settings`                  | hash   | what all processes must agree on (partitions)   | for ever           |
| `<prefix>:gauges`                    | hash   | gauges of the whole system, by one worker       | for ever           |
| `<prefix>:workers`                   | zset   | worker -> moment it was last seen alive         | a day              |

All keys of one partition share its hash tag, so a script is atomic over a thread and its indexes on Redis Cluster too.
The thread id stands last, so no id can reach the keys of another thread. Moments are milliseconds of the Redis clock.
"""

from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

LAYOUT_VERSION = 1
MOST_REMEMBERED = 4096  # threads whose keys need not be spelled again


class ThreadKeys(NamedTuple):
    """The keys of one thread, in the order in which every script takes them."""

    thread: str
    log: str
    token: str
    dirty: str
    idle: str
    wanted: str
    quarantine: str


class Keys:
    """Spells keys for one prefix and one number of partitions."""

    def __init__(self, prefix: str, partitions: int) -> None:
        self.prefix = prefix
        self.partitions = partitions
        self._bases = [f"{prefix}:{{p{number:03}}}:" for number in range(partitions)]
        self.thread = lru_cache(MOST_REMEMBERED)(self._thread)
        self._indexes = [(f"{base}dirty", f"{base}idle", f"{base}wanted", f"{base}quarantine") for base in self._bases]

    @property
    def settings(self) -> str:
        return f"{self.prefix}:settings"

    @property
    def gauges(self) -> str:
        return f"{self.prefix}:gauges"

    @property
    def workers(self) -> str:
        return f"{self.prefix}:workers"

    def partition(self, thread_id: str) -> int:
        """The partition of a thread: a hash that is the same in every process and version."""
        return crc32(thread_id.encode()) % self.partitions

    def _thread(self, thread_id: str) -> ThreadKeys:
        """The keys of one thread; called `thread`, it remembers those in use."""
        partition = self.partition(thread_id)
        base = self._bases[partition]
        return ThreadKeys(
            f"{base}thread:{thread_id}", f"{base}log:{thread_id}", f"{base}token:{thread_id}", *self._indexes[partition]
        )

    def run_lock(self, thread_id: str) -> str:
        return f"{self._bases[self.partition(thread_id)]}run:{thread_id}"

    def dirty(self, partition: int) -> str:
        return self._indexes[partition][0]

    def idle(self, partition: int) -> str:
        return self._indexes[partition][1]

    def wanted(self, partition: int) -> str:
        return self._indexes[partition][2]

    def quarantine(self, partition: int) -> str:
        return self._indexes[partition][3]
