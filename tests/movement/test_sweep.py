"""Sweep: it finds what is due in any partition, and asks for nothing else."""

from jobs.sweep import sweep
from saver import TieredSaver
from saver.connect import Tiers
from tests.builders import Thread
from tests.movement.steps import SOON, with_settings


class Asked(list[tuple[str, int]]):
    """What a sweep asked for."""

    async def __call__(self, job: str, partition: int) -> None:
        self.append((job, partition))


async def test_nothing_due_asks_for_nothing(tiers: Tiers, saver: TieredSaver) -> None:
    await Thread(saver).put({"x": [1]})
    asked = Asked()

    swept = await sweep(tiers, asked)

    assert asked == []
    assert swept.partitions == {"archive": [], "demote": [], "promote": []}


async def test_each_partition_with_work_is_asked_for_once(tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(20)]
    for thread in threads:
        await thread.put({"x": [1]})
    gone = Thread(saver)
    await gone.latest()
    asked = Asked()

    await sweep(with_settings(tiers, archive_after=SOON, demote_after=SOON), asked)

    partitions = {tiers.keys.partition(thread.thread_id) for thread in threads}
    moves = [(job, partition) for job in ("archive", "demote") for partition in sorted(partitions)]
    assert asked == [*moves, ("promote", tiers.keys.partition(gone.thread_id))]


async def test_emptied_redis_is_noticed_once_and_fixed_to_its_partitions_again(
    tiers: Tiers, saver: TieredSaver
) -> None:
    await Thread(saver).put({"x": [1]})
    before = await sweep(tiers, Asked())

    await tiers.hot.command("DEL", tiers.keys.settings)
    found = [await sweep(tiers, Asked()) for _ in range(2)]

    assert [one.is_emptied for one in (before, *found)] == [False, True, False]
    assert await tiers.hot.command("HGET", tiers.keys.settings, "partitions") == b"%d" % tiers.keys.partitions
