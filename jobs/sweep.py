"""Sweep: find what is due in all partitions, whatever hints were lost, and ask for the jobs that move it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from saver.connect import Tiers, agree
from saver.survey import waiting

Ask = Callable[[str, int], Awaitable[None]]


@dataclass(slots=True)
class Swept:
    """The partitions in which something is due, by the job that moves it."""

    is_emptied: bool = False  # Redis was emptied while workers ran
    partitions: dict[str, list[int]] = field(default_factory=lambda: {"archive": [], "demote": [], "promote": []})


async def sweep(tiers: Tiers, ask: Ask) -> Swept:
    """
    Look at every partition in three round trips and ask for a job where something is due.

    A job finds its threads itself, so one that is asked for twice or in vain does no harm. Raises HotTierError, or
    ConfigError when Redis was emptied and somebody else uses it otherwise now.
    """
    swept = Swept(is_emptied=await agree(tiers))
    for one in await waiting(tiers):
        for job, count in (("archive", one.dirty), ("demote", one.idle), ("promote", one.wanted)):
            if count:
                swept.partitions[job].append(one.partition)
    for job, partitions in swept.partitions.items():
        for partition in partitions:
            await ask(job, partition)
    return swept
