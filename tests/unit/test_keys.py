"""Where a thread's keys lie: one partition each, never those of another thread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from saver.keys import Keys

KEYS = Keys("tier", 64)
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.sampled_from(
    ["a}b{c", "{", "}x", "x:y", "thread:1", "log:1"]
)


@given(IDS)
def test_all_keys_of_a_thread_share_one_slot(thread_id: str) -> None:
    slots = {key_slot(key.encode()) for key in KEYS.thread(thread_id)}

    assert len(slots) == 1


@given(IDS, IDS)
def test_no_thread_reaches_the_keys_of_another(one: str, other: str) -> None:
    own = set(KEYS.thread(one)[:3])

    assert len(own) == 3
    assert own.isdisjoint(KEYS.thread(other)[:3]) == (one != other)


@pytest.mark.parametrize(("thread_id", "partition"), [("thread-1", 57), ("", 0), ("ü", 21)])
def test_partition_of_a_thread_never_changes(thread_id: str, partition: int) -> None:
    """Threads in Redis would be lost from sight if another version hashed otherwise."""
    assert KEYS.partition(thread_id) == partition


@given(IDS)
def test_thread_stands_in_the_indexes_of_its_partition(thread_id: str) -> None:
    partition, keys = KEYS.partition(thread_id), KEYS.thread(thread_id)

    assert keys.dirty == KEYS.dirty(partition)
    assert keys.idle == KEYS.idle(partition)
    assert keys.wanted == KEYS.wanted(partition)
    assert keys.quarantine == KEYS.quarantine(partition)
