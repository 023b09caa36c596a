"""Archive: what waits in the logs comes to Postgres, and nothing stops it but Postgres itself."""

import psycopg
import pytest
from hiredis import ReplyError
from psycopg import sql

from jobs.archive import archive_due
from jobs.quarantine import is_about_data, list_aside, retry
from saver import TierConfig, TieredSaver
from saver.carriers import explained
from saver.connect import Tiers
from saver.errors import ColdTierError
from saver.survey import survey_hot
from tests.builders import Thread
from tests.movement.steps import SOON, archive_all, cold_ids, refuse, with_settings


async def test_due_threads_are_archived_in_few_transactions(tiers: Tiers, saver: TieredSaver) -> None:
    threads = [Thread(saver) for _ in range(20)]
    for thread in threads:
        await thread.put({"x": [1]})

    done = await archive_all(with_settings(tiers, archive_after=SOON))

    assert (done.threads, done.is_done) == (20, True)
    assert [await cold_ids(tiers, thread) for thread in threads] == [[thread.checkpoint_id] for thread in threads]
    assert (await survey_hot(tiers)).dirty_threads == 0


async def test_thread_written_a_moment_ago_waits(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})

    done = await archive_all(tiers)

    assert (done.threads, done.is_done) == (0, True)
    assert await cold_ids(tiers, thread) == []


async def test_log_larger_than_a_batch_is_archived_in_one_turn(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number] * 1000}) for number in range(10)]

    small = with_settings(tiers, archive_after=SOON, batch_bytes=1000)
    done = await archive_due(small, tiers.keys.partition(thread.thread_id))

    assert done.is_done
    assert await cold_ids(tiers, thread) == ids[::-1]


async def test_archived_thread_is_trimmed(tiers: Tiers, saver: TieredSaver) -> None:
    thread = Thread(saver)
    ids = [await thread.put({"x": [number]}) for number in range(5)]

    done = await archive_all(with_settings(tiers, archive_after=SOON, hot_checkpoints=2))

    assert done.trimmed_rows >= 3
    assert await thread.ids() == ids[::-1]


async def test_refused_thread_is_set_aside_and_the_others_go_on(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    threads = [Thread(saver) for _ in range(7)]
    for thread in threads:
        await thread.put({"x": [1]})
    poison = threads[3]
    refuse(postgres_url, tiers, poison.thread_id)

    done = await archive_all(with_settings(tiers, archive_after=SOON))

    assert (done.threads, done.quarantined, done.is_done) == (6, 1, True)
    [aside] = await list_aside(tiers, tiers.keys.partition(poison.thread_id))
    assert (aside.thread_id, aside.reason, aside.sqlstate) == (poison.thread_id, "CheckViolation", "23514")
    assert await poison.values() == {"x": [1]}
    assert (await survey_hot(tiers)).quarantined_threads == 1


async def test_thread_set_aside_is_archived_after_a_retry(tiers: Tiers, saver: TieredSaver, postgres_url: str) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    refuse(postgres_url, tiers, thread.thread_id)
    soon = with_settings(tiers, archive_after=SOON)
    await archive_all(soon)
    assert await retry(tiers, thread.thread_id)
    await archive_all(soon)
    [aside] = await list_aside(tiers, tiers.keys.partition(thread.thread_id))
    assert aside.attempts == 2

    refuse(postgres_url, tiers, None)
    assert await retry(tiers, thread.thread_id)
    await archive_all(soon)

    assert await cold_ids(tiers, thread) == [thread.checkpoint_id]
    assert await list_aside(tiers, tiers.keys.partition(thread.thread_id)) == []
    assert not await retry(tiers, thread.thread_id)


async def test_write_to_a_thread_set_aside_does_not_put_it_back_in_line(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    refuse(postgres_url, tiers, thread.thread_id)
    soon = with_settings(tiers, archive_after=SOON)
    await archive_all(soon)

    await thread.put({"x": [2]})

    done = await archive_all(soon)
    assert (done.threads, done.quarantined) == (0, 0)


async def test_postgres_out_of_reach_ends_the_turn_and_sets_nothing_aside(
    tiers: Tiers, saver: TieredSaver, postgres_url: str
) -> None:
    thread = Thread(saver)
    await thread.put({"x": [1]})
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        table = sql.Identifier(tiers.config.postgres_schema, "checkpoint_blobs")
        connection.execute(sql.SQL("alter table {} rename to hidden").format(table))

    with pytest.raises(ColdTierError):
        await archive_all(with_settings(tiers, archive_after=SOON))

    survey = await survey_hot(tiers)
    assert (survey.dirty_threads, survey.quarantined_threads) == (1, 0)


async def test_damaged_row_is_set_aside(tiers: Tiers, saver: TieredSaver, config: TierConfig) -> None:
    damaged, sound = Thread(saver), Thread(saver)
    await damaged.put({"x": [1]})
    await sound.put({"x": [1]})
    keys = tiers.keys.thread(damaged.thread_id)
    [field] = [name for name in await tiers.hot.command("HKEYS", keys.thread) if name.startswith(b"c")]
    await tiers.hot.command("HSET", keys.thread, field, b"\x90zdamaged")

    done = await archive_all(with_settings(tiers, archive_after=SOON))

    assert (done.threads, done.quarantined) == (1, 1)


async def test_thread_with_a_key_of_another_type_is_set_aside(tiers: Tiers, saver: TieredSaver) -> None:
    damaged, sound = Thread(saver), Thread(saver)
    await damaged.put({"x": [1]})
    await sound.put({"x": [1]})
    keys = tiers.keys.thread(damaged.thread_id)
    await tiers.hot.command("SET", keys.log, "not a list")

    done = await archive_all(with_settings(tiers, archive_after=SOON))

    assert (done.threads, done.quarantined) == (1, 1)


@pytest.mark.parametrize(
    ("text", "is_refusal"),
    [
        ("WRONGTYPE Operation against a key holding the wrong kind of value", True),
        ("ERR Error running script (call to f_1): @user_script:3: bad argument", True),
        ("ERR max number of clients reached", False),
        ("ERR Error running script (call to f_1): @user_script:3: Script killed by user with SCRIPT KILL", False),
        ("OOM command not allowed when used memory > 'maxmemory'. script: f_1, on @user_script:3.", False),
    ],
)
def test_only_an_error_about_data_sets_a_thread_aside(text: str, is_refusal: bool) -> None:
    assert is_about_data(explained(ReplyError(text))) is is_refusal
