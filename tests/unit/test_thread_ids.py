"""A thread id is the same for the same user and session, differs for any other, and cannot be guessed."""

import re
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import SecretStr

from saver.errors import ConfigError, InvalidThread
from saver.threads import make_thread_id

SECRET = "a secret of many bytes"
USER = UUID("0c7c7f4e-3f2e-4c1e-9b1a-1f3a5b7c9d2e")

texts = st.text(st.characters(), min_size=1)


@given(texts, texts)
def test_an_id_is_stable_and_safe_in_a_url_and_on_a_command_line(user: str, session: str) -> None:
    made = make_thread_id(user, session, secret=SECRET)

    assert made == make_thread_id(user, session, secret=SECRET)
    assert re.fullmatch("t[A-Za-z0-9_-]{43}", made)


def test_an_id_does_not_change_between_versions() -> None:
    made = make_thread_id("user", "session", secret=SECRET)

    assert made == "tszYCy3GC8hR0BuDd_-hlqJMo2KTjfrcCgHZsvieZCgk"


@given(texts, texts, texts, texts)
def test_other_parts_give_another_id(user: str, session: str, other_user: str, other_session: str) -> None:
    assume((user, session) != (other_user, other_session))

    assert make_thread_id(user, session, secret=SECRET) != make_thread_id(other_user, other_session, secret=SECRET)


@given(st.text("ab:/\0", min_size=2, max_size=6), st.data())
def test_the_same_characters_split_elsewhere_give_another_id(joined: str, data: st.DataObject) -> None:
    cuts = st.integers(1, len(joined) - 1)
    one, other = data.draw(cuts), data.draw(cuts)
    assume(one != other)

    assert make_thread_id(joined[:one], joined[one:], secret=SECRET) != make_thread_id(
        joined[:other], joined[other:], secret=SECRET
    )


def test_a_number_and_a_uuid_mean_the_same_as_their_text() -> None:
    assert make_thread_id(7, USER, secret=SECRET) == make_thread_id("7", str(USER), secret=SECRET)


def test_user_and_session_are_not_interchangeable() -> None:
    assert make_thread_id("a", "b", secret=SECRET) != make_thread_id("b", "a", secret=SECRET)


def test_another_secret_gives_another_id_and_its_type_does_not_matter() -> None:
    made = make_thread_id("a", "b", secret=SECRET)

    assert (
        made == make_thread_id("a", "b", secret=SECRET.encode()) == make_thread_id("a", "b", secret=SecretStr(SECRET))
    )
    assert made != make_thread_id("a", "b", secret=f"{SECRET}.")


def test_the_secret_comes_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIER_REDIS_URL", raising=False)
    monkeypatch.setenv("TIER_THREAD_SECRET", SECRET)

    assert make_thread_id("a", "b") == make_thread_id("a", "b", secret=SECRET)


def test_without_a_secret_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIER_THREAD_SECRET", raising=False)

    with pytest.raises(ConfigError, match="TIER_THREAD_SECRET is not set"):
        make_thread_id("a", "b")


@pytest.mark.parametrize("secret", ["", "hunter2", b"x" * 15, SecretStr("hunter2")])
def test_a_short_secret_is_refused_and_not_quoted(secret: str | bytes | SecretStr) -> None:
    with pytest.raises(ConfigError, match="secret is too short: write at least 16 random bytes") as caught:
        make_thread_id("a", "b", secret=secret)

    assert "hunter2" not in str(caught.value)


def test_a_short_secret_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_THREAD_SECRET", "hunter2")

    with pytest.raises(ConfigError, match=r"^TIER_THREAD_SECRET is too short"):
        make_thread_id("a", "b")


@pytest.mark.parametrize("part", ["", None, True, 1.5, b"a"])
def test_a_part_that_is_no_id_is_refused(part: object) -> None:
    with pytest.raises(InvalidThread, match="user_id is"):
        make_thread_id(part, "b", secret=SECRET)  # type: ignore[arg-type]
    with pytest.raises(InvalidThread, match="session_id is"):
        make_thread_id("a", part, secret=SECRET)  # type: ignore[arg-type]
