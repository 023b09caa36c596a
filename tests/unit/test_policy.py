"""What holds for a thread, of all that is said about it."""

from datetime import timedelta
from typing import Any

import pytest

from saver import TierConfig
from saver.policy import Policy, Told, policy_for

DAY = timedelta(days=1)


def decided(told: Told, **settings: Any) -> Policy:
    return policy_for(TierConfig(redis_url="redis://hot", postgres_url="postgresql://cold/db", **settings), told)


def test_variables_hold_for_threads_nobody_speaks_of() -> None:
    assert decided(Told({}), retain_for="90d", keep_checkpoints=5) == Policy(90 * DAY, 5, "keep", False)
    assert decided(Told({"user_id": "ann"}), retain_waiting="expire") == Policy(None, None, "expire", False)


@pytest.mark.parametrize(
    ("told", "days"),
    [
        (Told({"tier_retain_for": "1d"}, [{"tier_retain_for": "2d"}], [{"tier_retain_for": "3d"}]), 1),
        (Told({}, [{"tier_retain_for": "2d"}], [{"tier_retain_for": "3d"}]), 2),
        (Told({}, [], [{"tier_retain_for": "3d"}]), 3),
        (Told({}, [{"tier_keep_checkpoints": "1"}], [{"tier_retain_for": "3d"}]), 3),
        (Told({}, [], [{"tier_retain_for": "3d"}, {"tier_retain_for": "7d"}]), 7),
        (Told({}, [], [{"tier_retain_for": "3d"}, {"tier_retain_for": "off"}]), None),
        (Told({"tier_retain_for": "off"}), None),
    ],
)
def test_nearest_word_goes_first_and_of_equals_the_one_that_keeps_more(told: Told, days: int | None) -> None:
    assert decided(told, retain_for="90d").retain_for == (None if days is None else days * DAY)


def test_waiting_is_spared_if_any_of_equal_rank_says_so() -> None:
    both = Told({}, [], [{"tier_retain_waiting": "expire"}, {"tier_retain_waiting": "keep"}])

    assert decided(both, retain_waiting="expire").retain_waiting == "keep"
    assert decided(Told({"tier_retain_waiting": "expire"}, both.by_metadata)).retain_waiting == "expire"


@pytest.mark.parametrize("value", [True, "yes", 1, "false"])
def test_hold_holds_whoever_says_it_and_however(value: object) -> None:
    hold = {"tier_legal_hold": value}

    assert all(decided(told).is_held for told in (Told(hold), Told({}, [hold]), Told({}, [], [hold])))
    assert not decided(Told({"tier_legal_hold": False}, [{"tier_legal_hold": None}])).is_held


@pytest.mark.parametrize(
    "wish",
    [
        {"tier_retain_for": "0"},
        {"tier_retain_for": 30},
        {"tier_retain_for": ""},
        {"tier_keep_checkpoints": 0},
        {"tier_keep_checkpoints": True},
        {"tier_keep_checkpoints": "all"},
        {"tier_retain_waiting": "no"},
    ],
)
def test_wish_that_cannot_be_read_is_no_wish_to_delete(wish: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="write "):
        decided(Told(wish), retain_for="1d")
