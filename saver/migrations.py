"""
State migrations: bring the state of an old checkpoint to the current `schema_version` when it is read.

The version stands in the metadata as `schema_version`; without one a state is of version 1. A migrated channel gets a
version of its own, the same in every process, and whoever had seen the old one has seen the new one, so nothing runs
again. The next put finds that Redis lacks these versions and brings all values, which is how the new state is written.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from saver.errors import ConfigError

FIRST_VERSION = 1
METADATA_KEY = "schema_version"

State = dict[str, Any]
Migration = Callable[[State], State]


class Migrations:
    """
    Functions by the version that they bring a state to, as a decorator:

        @saver.migrations.register(2)
        def rename(state):
            return {"messages": state.pop("history"), **state}

    Register before the first read. A function gets the channel values and returns them changed; writes that are still
    pending and snapshots of delta channels are not touched.
    """

    def __init__(self) -> None:
        self._by_version: dict[int, Migration] = {}

    @property
    def current(self) -> int:
        """The version that states are written in."""
        return max(self._by_version, default=FIRST_VERSION)

    def __bool__(self) -> bool:
        return bool(self._by_version)

    def __iter__(self) -> Iterator[tuple[int, Migration]]:
        return iter(sorted(self._by_version.items()))

    def register(self, version: int) -> Callable[[Migration], Migration]:
        """Register the step to a version. Raises ConfigError for a version below 2 or one that is taken."""
        if version <= FIRST_VERSION:
            raise ConfigError(f"states begin with version {FIRST_VERSION}: register a migration to 2 or more")
        if version in self._by_version:
            raise ConfigError(f"the migration to version {version} is registered already")

        def take(migration: Migration) -> Migration:
            self._by_version[version] = migration
            return migration

        return take

    def apply(self, found: CheckpointTuple, serde: SerializerProtocol) -> None:
        """Bring a checkpoint to the current version, in place."""
        stored = cast(dict[str, Any], found.metadata).get(METADATA_KEY, FIRST_VERSION)
        steps = [migration for version, migration in self if version > stored]
        if not steps:
            return
        checkpoint = found.checkpoint
        before = {channel: serde.dumps_typed(value) for channel, value in checkpoint["channel_values"].items()}
        values = checkpoint["channel_values"]
        for migration in steps:
            values = migration(values)
        checkpoint["channel_values"] = values
        for channel, value in values.items():
            if before.get(channel) != serde.dumps_typed(value):
                self._renew(checkpoint["channel_versions"], checkpoint["versions_seen"], channel)

    def _renew(self, versions: dict[str, Any], versions_seen: dict[str, dict[str, Any]], channel: str) -> None:
        old = versions.get(channel)
        whole = int(str(old).split(".")[0]) if old is not None else 0
        new = whole + 1 if isinstance(old, int) else f"{whole + 1:032}.s{self.current}"
        versions[channel] = new
        for seen in versions_seen.values():
            if old is None or seen.get(channel) == old:
                seen[channel] = new
