"""What a check found: facts, findings, and what it was not allowed to see."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to mend: what is so, what comes of it, what to do."""

    fact: str
    consequence: str
    next_step: str


@dataclass(slots=True)
class Report:
    """All that is known of one subject."""

    subject: str
    facts: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def note(self, fact: str) -> None:
        """Say what is so and is in order."""
        self.facts.append(fact)

    def find(self, fact: str, consequence: str, next_step: str) -> None:
        """Say what is so and is not in order."""
        self.findings.append(Finding(fact, consequence, next_step))

    def cannot_see(self, what: str) -> None:
        """Say what stays unknown, and why."""
        self.unseen.append(what)


def listed(names: Iterable[str], most: int = 8) -> str:
    """The names in one line, cut short when there are many."""
    known = sorted(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")
