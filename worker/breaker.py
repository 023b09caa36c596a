"""The breaker: when a tier fails, jobs pause for a moment instead of hammering it."""

import time

PAUSE_SECONDS = 2.0


class Breaker:
    """Closed, it lets every job pass. Tripped, none; after the pause one at a time, until one succeeds."""

    def __init__(self) -> None:
        self._tripped_until: float | None = None
        self.is_probing = False  # one job tries whether the tiers are back

    @property
    def is_paused(self) -> bool:
        """Whether a job would not pass now."""
        if self._tripped_until is None:
            return False
        return self.is_probing or time.monotonic() < self._tripped_until

    def lets_pass(self) -> bool:
        """Ask before a job; whoever is let pass ends with `end_probe`."""
        if self.is_paused:
            return False
        self.is_probing = self._tripped_until is not None
        return True

    def close(self) -> None:
        """A job succeeded."""
        self._tripped_until = None

    def trip(self) -> None:
        """A job failed on a tier."""
        self._tripped_until = time.monotonic() + PAUSE_SECONDS

    def end_probe(self) -> None:
        """A job ended, whatever its outcome."""
        self.is_probing = False
