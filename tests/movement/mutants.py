"""
From each guard of the protocol's model to the line that implements it and the test that fails without it.

`make mutants` takes the guards out one at a time, in a copy of the project, and runs the named test, which must fail.
Names of guards are those of the model's mutations.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from worker.embedded import Embedded

ROOT = Path(__file__).parents[2]
COPIED = ("saver", "jobs", "worker", "tests", "pyproject.toml")
GUARDS, MOVES = "tests/movement/test_guards.py", "tests/movement/test_interleavings.py"
CHANGES, RETAIN = "tests/movement/test_cold_changes.py", "tests/movement/test_retain.py"
LOCK = "tests/movement/test_run_lock.py"


class Mutant(NamedTuple):
    """One guard, taken out by putting other text in its place."""

    guard: str
    file: str
    text: str
    instead: str
    test: str


MUTANTS = [
    Mutant(
        "ack_no_inc",
        "saver/lua/log_ack.lua",
        "if incarnation ~= tonumber(ARGV[2]) then",
        "if false then",
        f"{MOVES}::test_late_acknowledgement_does_not_shorten_a_newer_incarnation",
    ),
    Mutant(
        "ack_before_commit",
        "saver/archive.py",
        '    await tiers.pause("archive: rows sent")',
        "    await tiers.hot.call_many([hot.log_ack(tiers.keys.thread(b.thread_id), b) for b, _ in result.copied])\n"
        '    await tiers.pause("archive: rows sent")',
        f"{GUARDS}::test_copy_that_does_not_commit_keeps_the_log",
    ),
    Mutant(
        "demote_dirty",
        "saver/lua/evict.lua",
        "if redis.call('EXISTS', KEYS[2]) == 1 and not vanishes then",
        "if false then",
        f"{MOVES}::test_thread_dirtied_during_archive_is_not_evicted",
    ),
    Mutant(
        "demote_keeps_token",
        "saver/lua/state.lua",
        "redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])",
        "redis.call('UNLINK', KEYS[1], KEYS[2])",
        f"{MOVES}::test_load_is_refused_when_the_thread_changed_after_the_read",
    ),
    Mutant(
        "hydrate_no_token",
        "saver/lua/hydrate.lua",
        "if token ~= ARGV[2] or string.sub(token, 1, #HISTORY) ~= HISTORY then",
        "if false then",
        f"{MOVES}::test_load_is_refused_when_the_thread_changed_after_the_read",
    ),
    Mutant(
        "hydrate_resident",
        "saver/lua/hydrate.lua",
        "  if not place or cmsgpack.unpack(place) >= 0 then",
        "  if false then",
        f"{MOVES}::test_load_is_refused_when_the_thread_changed_after_the_read",
    ),
    Mutant(
        "trim_dirty",
        "saver/lua/trim.lua",
        "if resident() ~= OK or redis.call('EXISTS', KEYS[2]) == 1 then",
        "if resident() ~= OK then",
        f"{GUARDS}::test_dirty_thread_is_not_trimmed",
    ),
    Mutant(
        "trim_keeps_floor",
        "saver/lua/trim.lua",
        "cmsgpack.pack(number, raised, head)",
        "cmsgpack.pack(number, old, head)",
        f"{GUARDS}::test_checkpoint_below_the_floor_is_read_from_cold",
    ),
    Mutant(
        "trim_blobs",
        "saver/lua/trim.lua",
        "(kind == 'b' and not used[n .. ':' .. rest])",
        "(kind == 'b')",
        f"{GUARDS}::test_head_is_complete_after_a_trim",
    ),
    Mutant(
        "put_blind",
        "saver/lua/put.lua",
        "if n < 0 then\n  return { MISS, load_token(ARGV[6], ARGV[7]) }\nend",
        "if n < 0 then\n  incarnation, tail, n, count = incarnation or 1, tail or 0, count or 0, (count or 0) + 1\nend",
        f"{MOVES}::test_put_of_an_older_id_never_becomes_the_head",
    ),
    Mutant(
        "no_need",
        "saver/lua/put.lua",
        "    return { NEED }",
        "",
        f"{MOVES}::test_fork_from_a_trimmed_checkpoint_carries_its_blobs",
    ),
    Mutant(
        "no_orphans",
        "saver/sql/queries.sql",
        "and checkpoint_id >= (select checkpoint_id from floor)",
        "and checkpoint_id = (select checkpoint_id from floor)",
        f"{MOVES}::test_writes_before_their_checkpoint_survive_a_demotion_in_between",
    ),
    Mutant(
        "ns_assumed_empty",
        "saver/load.py",
        'others = [record[2] for record in records if record[0] == "n"]',
        "others: list[str] = []",
        f"{GUARDS}::test_namespace_that_was_not_loaded_is_not_taken_for_empty",
    ),
    Mutant(
        "by_id_hot_only",
        "saver/lua/read.lua",
        "id >= floor and OK or PART",
        "OK",
        f"{GUARDS}::test_checkpoint_below_the_floor_is_read_from_cold",
    ),
    Mutant(
        "by_id_hot_row",
        "saver/lua/read.lua",
        "id >= floor and OK or PART",
        "(row or id >= floor) and OK or PART",
        f"{GUARDS}::test_row_put_again_below_the_floor_keeps_its_writes",
    ),
    Mutant(
        "cold_first",
        "saver/operations.py",
        "    found = yield from _read_hot(context, address)\n"
        "    if found.is_whole:\n"
        '        READS["hot", "hit" if found.rows.checkpoints else "none"].inc()\n'
        "        rows = found.rows\n"
        "    else:\n"
        "        rows = merged(found.rows, (yield Slow(_read_cold, (address,))))",
        "    early = yield Slow(_read_cold, (address,))\n"
        "    found = yield from _read_hot(context, address)\n"
        "    rows = found.rows\n"
        "    if not found.is_whole:\n"
        "        rows = merged(found.rows, early)",
        f"{GUARDS}::test_get_finds_what_leaves_hot_while_it_reads_cold",
    ),
    Mutant(
        "regular_hot_wins, special_cold_wins",
        "saver/operations.py",
        "[*cold_rows.writes, *hot_rows.writes]",
        "[*hot_rows.writes, *cold_rows.writes]",
        f"{GUARDS}::test_below_the_floor_the_first_ordinary_and_the_last_special_write_count",
    ),
    Mutant(
        "hot_regular_overwrite",
        "saver/rows.py",
        "if row.idx < 0 or key not in merged:",
        "if True:",
        f"{GUARDS}::test_first_ordinary_and_last_special_write_count_in_hot",
    ),
    Mutant(
        "arch_regular_overwrite",
        "saver/sql/queries.sql",
        " where old.idx < 0;",
        " where true;",
        f"{GUARDS}::test_below_the_floor_the_first_ordinary_and_the_last_special_write_count",
    ),
    Mutant(
        "arch_special_nothing",
        "saver/sql/queries.sql",
        " where old.idx < 0;",
        " where false;",
        f"{GUARDS}::test_below_the_floor_the_first_ordinary_and_the_last_special_write_count",
    ),
    Mutant(
        "log_once",
        "saver/lua/state.lua",
        "  local length, is_first = 0, 0\n",
        "  local length, is_first = redis.call('LLEN', KEYS[2]), 0\n"
        "  for i = #names, 1, -1 do\n"
        "    if redis.call('LPOS', KEYS[2], names[i]) then\n"
        "      table.remove(names, i)\n"
        "    end\n"
        "  end\n",
        f"{GUARDS}::test_row_put_again_during_its_archive_is_archived_again",
    ),
    Mutant(
        "row_before_blobs",
        "saver/lua/log_read.lua",
        "  seen[names[i]] = seen[names[i]] and string.sub(names[i], 1, 1) ~= 'c'",
        "",
        f"{GUARDS}::test_row_logged_again_behind_the_cut_waits_for_its_blobs",
    ),
    Mutant(
        "arch_no_lock",
        "saver/sql/queries.sql",
        " where pg_try_advisory_xact_lock(hashtextextended(thread_id, 0));",
        ";",
        f"{MOVES}::test_delete_wins_over_an_archiver_at_every_step",
    ),
    Mutant(
        "arch_read_before_lock",
        "saver/archive.py",
        '    await tiers.pause("archive: begins")',
        "    early = [part async for part in _read_logs(tiers, ids, {})]\n"
        '    await tiers.pause("archive: begins")\n'
        "    async def _read_logs(*_: object) -> AsyncGenerator[list[Copied]]:\n"
        "        for part in early:\n"
        "            yield part",
        f"{GUARDS}::test_log_is_read_under_the_lock",
    ),
    Mutant(
        "destroy_no_evict",
        "saver/destroy.py",
        "        if Evicted(reply) is Evicted.NOT_ARCHIVED:",
        "        if False:",
        f"{MOVES}::test_two_deletes_at_once_both_succeed",
    ),
    Mutant(
        "destroy_evict_late",
        "saver/destroy.py",
        '        await tiers.pause("destroy: evicted")\n'
        "        await change(transaction)\n"
        '        await tiers.pause("destroy: changed")\n'
        "        return True\n"
        "\n"
        "    for attempt in range(MOST_ATTEMPTS):\n"
        "        if await tiers.cold.transact(evict_and_change):\n",
        "        return True\n"
        "\n"
        "    async def change_alone(transaction: Transaction) -> None:\n"
        '        await transaction.fetch("lock_exclusive_pair", {"thread_ids": [thread_id, *held]})\n'
        '        await tiers.pause("destroy: evicted")\n'
        "        await change(transaction)\n"
        '        await tiers.pause("destroy: changed")\n'
        "\n"
        "    await tiers.cold.transact(change_alone)\n"
        "    for attempt in range(MOST_ATTEMPTS):\n"
        "        if await tiers.cold.transact(evict_and_change):\n",
        f"{MOVES}::test_put_during_delete_is_either_deleted_or_whole",
    ),
    Mutant(
        "destroy_keeps_token",
        "saver/lua/state.lua",
        "redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])",
        "redis.call('UNLINK', KEYS[1], KEYS[2])",
        f"{MOVES}::test_load_is_refused_when_the_thread_changed_after_the_read[deleted]",
    ),
    Mutant(
        "destroy_keeps_token (retain)",
        "saver/lua/absent.lua",
        "redis.call('UNLINK', KEYS[3])",
        "",
        f"{RETAIN}::test_load_that_read_before_a_retention_is_refused",
    ),
    Mutant(
        "evict_dirty",
        "saver/destroy.py",
        "        if Evicted(reply) is Evicted.NOT_ARCHIVED:",
        '        if not await tiers.hot.command("UNLINK", *tiers.keys.thread(thread_id)[:3]):',
        f"{CHANGES}::test_change_that_does_not_commit_costs_nothing",
    ),
    Mutant(
        "no_shared_lock",
        "saver/load.py",
        'fetch_locked("lock_shared", "load", where)',
        'fetch_locked("tier_position", "load", where)',
        f"{MOVES}::test_put_during_delete_is_either_deleted_or_whole",
    ),
    Mutant(
        "snapshot_before_lock",
        "saver/load.py",
        'await tiers.cold.fetch_locked("lock_shared", "load", where)',
        'await tiers.cold.fetch("load", where)\n    await tiers.cold.fetch("lock_shared", where)',
        f"{MOVES}::test_put_during_delete_is_either_deleted_or_whole",
    ),
    Mutant(
        "retention_age_early",
        "jobs/retention.py",
        "    due = due_among(threads, {thread_id for (thread_id,) in waiting}, counts)",
        "    due = [record[0] for record in told]",
        f"{RETAIN}::test_thread_archived_between_the_search_and_the_lock_stays",
    ),
    Mutant(
        "no_parent_check",
        "saver/lua/put.lua",
        "elseif ARGV[4] >= floor and not is_there then",
        "elseif false then",
        f"{GUARDS}::test_delta_put_on_a_parent_that_is_gone_is_refused",
    ),
    Mutant(
        "no_cold_parent_check",
        "saver/forks.py",
        "if not (rows.checkpoints or reply.has_parent):",
        "if not (rows.checkpoints or True):",
        "tests/contract/test_delta_channels.py::test_fork_from_a_checkpoint_that_was_pruned_is_refused",
    ),
    Mutant(
        "no_run_hist",
        "saver/lua/put.lua",
        "elseif ARGV[5] ~= '' and ARGV[5] ~= HISTORY then",
        "elseif false then",
        f"{GUARDS}::test_delta_put_of_a_run_from_before_a_failover_is_refused",
    ),
    Mutant(
        "copy_no_archive",
        "saver/copying.py",
        "    await drain(tiers, source)\n",
        "",
        f"{CHANGES}::test_put_during_a_copy_is_in_its_source_and_in_no_half_copy",
    ),
    Mutant(
        "no_hist_check",
        "saver/lua/state.lua",
        "if history ~= HISTORY then",
        "if false then",
        f"{MOVES}::test_copy_from_before_a_failover_is_archived_and_loaded_again",
    ),
    Mutant(
        "no_hist_check (overwritten)",
        "saver/lua/state.lua",
        "if history ~= HISTORY then",
        "if false then",
        "tests/faults/test_failover.py::test_a_primary_that_another_one_overwrote_is_not_trusted",
    ),
    Mutant(
        "a replica answers",
        "saver/lua/state.lua",
        "if string.match(replication, 'role:(%a+)') == 'slave' then",
        "if false then",
        "tests/faults/test_redis_faults.py::test_a_replica_is_not_read_from",
    ),
    Mutant(
        "tok_no_hist",
        "saver/lua/hydrate.lua",
        "if token ~= ARGV[2] or string.sub(token, 1, #HISTORY) ~= HISTORY then",
        "if token ~= ARGV[2] then",
        f"{GUARDS}::test_token_from_before_a_failover_is_void",
    ),
    Mutant(
        "no_zombie_check",
        "saver/archive.py",
        "if batch.incarnation < known.get(batch.thread_id, (NEVER, 0))[0]]",
        "if False]",
        f"{MOVES}::test_ghost_of_a_deleted_thread_is_dropped",
    ),
    Mutant(
        "heal_no_skip",
        "saver/lua/log_read.lua",
        "  skip = math.max(ARGV[4] - (tail - length), 0)",
        "  skip = 0",
        f"{GUARDS}::test_suspect_copy_does_not_take_cold_back",
    ),
    Mutant(
        "delete_drops_row",
        "saver/sql/queries.sql",
        "update {schema}.tier_threads\n   set last_activity = null,\n       head = null\n where thread_id = any",
        "delete from {schema}.tier_threads\n where thread_id = any",
        f"{MOVES}::test_ghost_of_a_deleted_thread_is_dropped",
    ),
    Mutant(
        "no_zombie_check (vanishing)",
        "saver/lua/adopt.lua",
        "if incarnation <= tonumber(ARGV[2]) then",
        "if false then",
        "tests/faults/test_failover.py::test_a_thread_that_was_to_vanish_and_was_archived_is_served_from_cold",
    ),
    Mutant(
        "delete_drops_row (vanishing)",
        "saver/destroy.py",
        "        if Evicted(reply) is Evicted.VANISHED:",
        "        if False:",
        "tests/faults/test_failover.py::test_a_deleted_thread_that_would_vanish_stays_deleted",
    ),
    Mutant(
        "drop_no_inc",
        "saver/lua/drop.lua",
        "if incarnation ~= tonumber(ARGV[2]) then",
        "if false then",
        f"{GUARDS}::test_drop_leaves_a_newer_incarnation_alone",
    ),
    Mutant(
        "drop_more_than_archived",
        "saver/lua/drop.lua",
        "elseif ARGV[3] ~= '' and tail ~= tonumber(ARGV[3]) then",
        "elseif false then",
        f"{GUARDS}::test_suspect_copy_that_has_more_by_now_is_not_dropped",
    ),
    Mutant(
        "inc_from_row",
        "saver/sql/queries.sql",
        "nextval('{schema}.tier_incarnation')::text",
        "'1'",
        f"{GUARDS}::test_incarnations_are_never_used_again",
    ),
    Mutant(
        "hint_only",
        "jobs/sweep.py",
        '(("archive", one.dirty), ("demote", one.idle), ("promote", one.wanted))',
        '(("demote", one.idle), ("promote", one.wanted))',
        "tests/movement/test_sweep.py::test_each_partition_with_work_is_asked_for_once",
    ),
    Mutant(
        "ack_zrem",
        "saver/lua/log_ack.lua",
        "if length == 0 then",
        "if true then",
        f"{GUARDS}::test_acknowledged_thread_that_is_written_stays_dirty",
    ),
    Mutant(
        "wt_ack_early",
        "saver/operations.py",
        "    if context.is_through:",
        "    if False:",
        f"{GUARDS}::test_write_through_is_in_postgres_when_acknowledged",
    ),
    Mutant(
        "wt_log_empty_ack",
        "saver/operations.py",
        "        if is_nothing_left:\n            break",
        "        if is_nothing_left:\n            return",
        f"{GUARDS}::test_write_through_does_not_acknowledge_what_redis_lost",
    ),
    Mutant(
        "put_no_lock_check",
        "saver/lua/state.lua",
        "  return KEYS[8] and redis.call('GET', KEYS[8]) ~= HISTORY .. ':' .. token",
        "  return false",
        f"{LOCK}::test_run_that_lost_its_lock_writes_nothing",
    ),
    Mutant(
        "lock_no_hist",
        "saver/lua/state.lua",
        "redis.call('GET', KEYS[8]) ~= HISTORY .. ':' .. token",
        "string.sub(redis.call('GET', KEYS[8]) or '', -#token) ~= token",
        f"{LOCK}::test_lock_from_before_a_failover_is_void",
    ),
]


# The other mutations of the model: of the protocol as a whole, not of one line of this code.
ELSEWHERE = {
    "naive_keeps_token": "write-through puts into Redis first, never into Postgres",
}


def stale() -> Iterator[str]:
    """Guards whose line or test is not there any more."""
    for mutant in MUTANTS:
        if (ROOT / mutant.file).read_text().count(mutant.text) < 1:
            yield f"{mutant.guard}: {mutant.file} does not have {mutant.text!r}"
        file, _, name = mutant.test.partition("[")[0].partition("::")
        if not re.search(rf"def {name}\b", (ROOT / file).read_text()):
            yield f"{mutant.guard}: {file} has no {name}"


def survives(mutant: Mutant, environment: dict[str, str]) -> bool:
    """Whether the named test passes although its guard is out."""
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            source, target = ROOT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        path = Path(folder) / mutant.file
        path.write_text(path.read_text().replace(mutant.text, mutant.instead))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=60", "-p", "no:cacheprovider", mutant.test]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(
                f"{mutant.guard}: the test ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.returncode == 0


def main(names: list[str]) -> int:
    faults = list(stale())
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.guard for name in names)]
    with Embedded() as servers:
        environment = {**os.environ, "TEST_REDIS_URL": servers.redis_url, "TEST_POSTGRES_URL": servers.postgres_url}
        for mutant in chosen:
            started = time.monotonic()
            alive = survives(mutant, environment)
            if alive:
                faults.append(f"{mutant.guard}: {mutant.test} passes without it")
            verdict = "SURVIVES" if alive else "caught"
            print(f"{verdict:8}  {mutant.guard:36}  {time.monotonic() - started:5.1f} s", flush=True)  # noqa: T201
    print("\n".join(faults) or f"all {len(chosen)} caught")  # noqa: T201
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
