"""
`make simulate`: the plan of deploy/SCALING.md from measured costs, and a simulated day that checks its arithmetic.

The arithmetic takes means: Little's law says how many threads are hot. The simulation plays a day of conversations one
by one, with their pauses and a busy evening, and counts what is hot, written, archived, brought back and left waiting.
It draws its numbers from a fixed seed, so that it prints the same everywhere.
"""

import argparse
import json
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.report import table

COSTS: dict[str, float] = json.loads(Path(__file__).with_name("costs.json").read_text())
STAGES = (100_000, 1_000_000, 10_000_000, 100_000_000)  # threads that are kept

DAY = 86_400
BUSY = 0.6  # no core is planned for more than this share
PEAK = 2.0  # the busiest hour, as many times the mean
ACTIVE = (0.02, 0.2)  # of all threads, on a day: an archive that grows, a service that people use each week
TURNS = 6  # of a conversation, on the mean
PAUSE = 90.0  # seconds between its turns, on the mean
STEPS = 5  # checkpoints of a turn
STEP_SECONDS = 2.0
DEMOTE_AFTER = 1800.0
ARCHIVE_AFTER = 5.0
KEPT = 10  # checkpoints of a thread in Postgres: TIER_KEEP_CHECKPOINTS
REDIS_GIB = 24  # memory of one Redis primary, of which two thirds hold threads

SEED = 7
CONVERSATIONS = 40_000  # played; what they do is scaled to the stage
BUCKET = 600
QUIET = 8 * 6  # the bucket when nobody is there


@dataclass
class Day:
    """What a day of some conversations asks for; peaks are of ten minutes."""

    hot_threads: float
    steps_per_second: float
    steps: float
    batches: float
    promotions: float
    demotions: float

    def scaled(self, by: float) -> "Day":
        return Day(*(value * by for value in vars(self).values()))


# ---- the arithmetic


def planned(conversations: float) -> Day:
    """By means: rate times stay is how many are there."""
    per_second = conversations / DAY * PEAK
    turn = (STEPS - 1) * STEP_SECONDS
    stay = (TURNS - 1) * (PAUSE + turn) + turn + DEMOTE_AFTER
    return Day(
        hot_threads=per_second * stay,
        steps_per_second=per_second * TURNS * STEPS,
        steps=conversations * TURNS * STEPS,
        batches=conversations * TURNS * math.ceil((turn + 0.001) / (ARCHIVE_AFTER + 1)),
        promotions=conversations,
        demotions=conversations,
    )


# ---- the simulation


def _start(rng: random.Random) -> float:
    """A moment of the day: most at eight in the evening, none at eight in the morning."""
    while True:
        at = rng.random() * DAY
        if rng.random() * 2 < 1 + math.cos((at / DAY - 20 / 24) * 2 * math.pi):
            return at


def _turns(rng: random.Random) -> int:
    """One at least, some far longer than most."""
    return 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / TURNS))


@dataclass
class Played:
    """The counts of a simulated day."""

    steps: Counter[int] = field(default_factory=Counter)  # by bucket
    stays: list[tuple[float, float]] = field(default_factory=list)
    batches: int = 0
    promotions: int = 0

    def converse(self, rng: random.Random) -> None:
        """One conversation with a thread that was cold."""
        at = _start(rng)
        arrived, last = at, -math.inf
        for _ in range(_turns(rng)):
            if at - last > DEMOTE_AFTER:
                if last > 0:
                    self.stays.append((arrived, last + DEMOTE_AFTER))
                arrived = at
                self.promotions += 1
            archived = -math.inf
            for step in range(STEPS):
                last = at + step * STEP_SECONDS
                self.steps[int(last % DAY) // BUCKET] += 1
                if last > archived:  # clean: this step makes it dirty, and the batch takes what comes until then
                    self.batches += 1
                    archived = last + ARCHIVE_AFTER
            at = last - PAUSE * math.log(1 - rng.random())
        self.stays.append((arrived, last + DEMOTE_AFTER))

    def most_hot(self) -> float:
        """The most threads at once, a stay that passes midnight counted on both days."""
        changes = Counter[int]()
        for arrived, left in self.stays:
            first, end = int(arrived), int(left)
            changes[first % DAY] += 1
            changes[end % DAY] -= 1
            if end // DAY > first // DAY:
                changes[0] += 1
        now = most = 0
        for second in sorted(changes):
            now += changes[second]
            most = max(most, now)
        return float(most)


def simulated() -> tuple[Day, list[float]]:
    """A day of CONVERSATIONS, and the steps of each bucket."""
    rng, played = random.Random(SEED), Played()
    for _ in range(CONVERSATIONS):
        played.converse(rng)
    buckets = [float(played.steps[number]) for number in range(DAY // BUCKET)]
    promotions = float(played.promotions)
    day = Day(
        played.most_hot(),
        max(buckets) / BUCKET,
        sum(buckets),
        float(played.batches),
        promotions,
        float(len(played.stays)),
    )
    return day, buckets


def backlog(buckets: list[float], per_second: float, down: range = range(0)) -> tuple[float, float]:
    """Steps that wait for a server of so many per second, at most, and seconds of the day with any that wait."""
    waiting = most = 0.0
    busy = 0
    for number in (*range(QUIET, len(buckets)), *range(QUIET)):
        waiting = max(0.0, waiting + buckets[number] - (0 if number in down else per_second * BUCKET))
        most = max(most, waiting)
        busy += BUCKET if waiting else 0
    return most, busy


# ---- what it takes


def cores(us_per_second: float) -> int:
    return max(1, math.ceil(us_per_second / 1e6 / BUSY))


def worker_us(day: Day) -> float:
    """CPU of all workers in a second of the peak."""
    moves = (COSTS["worker_us_per_demotion"] + COSTS["worker_us_per_promotion"]) * day.promotions * PEAK / DAY
    return COSTS["worker_us_per_step"] * day.steps_per_second + moves


def postgres_us(day: Day) -> float:
    """CPU of Postgres in a second of the peak."""
    return (
        COSTS["postgres_us_per_step"] * day.steps_per_second
        + COSTS["postgres_us_per_promotion"] * day.promotions * PEAK / DAY
    )


def needs(threads: int, day: Day) -> list[str]:
    """A row of the plan."""
    peak = day.steps_per_second
    gib = day.hot_threads * COSTS["hot_bytes_per_thread"] / 2**30
    redis = max(cores(COSTS["redis_us_per_step"] * peak), math.ceil(gib * 1.5 / REDIS_GIB))
    stored = threads * KEPT * COSTS["postgres_bytes_per_step"]
    return [
        f"{threads:,}",
        f"{peak:,.0f}",
        str(cores(COSTS["agent_us_per_step"] * peak)),
        f"{day.hot_threads:,.0f}",
        f"{gib:,.2f}",
        str(redis),
        str(max(2, cores(worker_us(day)))),
        f"{day.steps * COSTS['postgres_rows_per_step'] / 1e6:,.1f}",
        f"{day.steps * COSTS['postgres_bytes_per_step'] / 1e9:,.1f}",
        f"{stored / 1e12:,.2f}",
        str(cores(postgres_us(day))),
    ]


HEAD = [
    "steps/s at the peak",
    "agent cores",
    "hot threads",
    "hot GiB",
    "Redis primaries",
    "worker processes",
    "million rows a day",
    "GB a day",
    f"TB kept ({KEPT} checkpoints each)",
    "Postgres cores",
]


def report() -> str:
    """All tables, as they stand in deploy/SCALING.md."""
    day, buckets = simulated()
    plan = planned(CONVERSATIONS)
    measured = table(
        ["what one step or move costs", "measured"], [[n.replace("_", " "), f"{v:,.0f}"] for n, v in COSTS.items()]
    )
    stages = [
        table(
            [f"{share:.0%} in use on a day: threads", *HEAD],
            [needs(threads, day.scaled(threads * share / CONVERSATIONS)) for threads in STAGES],
        )
        for share in ACTIVE
    ]
    checks = [
        [name.replace("_", " "), f"{value:,.0f}", f"{found:,.0f}", f"{found / value:.2f}"]
        for (name, value), found in zip(vars(plan).items(), vars(day).values(), strict=True)
    ]
    mean = day.steps / DAY
    fault = range(20 * 6, 21 * 6)
    outages = [
        [f"{share:.2f}", *(f"{part:,.0f}" for part in (most / mean / 60, busy / 60))]
        for share in (1.25, 2.0, PEAK / BUSY)
        for most, busy in [backlog(buckets, mean * share, fault)]
    ]
    return "\n\n".join(
        [
            measured,
            *stages,
            table([f"a day of {CONVERSATIONS:,} conversations", "arithmetic", "simulation", "ratio"], checks),
            table(
                [
                    "capacity of the workers, x the mean load",
                    "most that waits, minutes of the mean load",
                    "minutes of the day with any that waits",
                ],
                outages,
            ),
        ]
    )


def main() -> None:
    argparse.ArgumentParser(prog="make simulate", description=__doc__).parse_args()
    print(report())  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main()
