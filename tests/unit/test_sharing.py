"""Work that many ask for at once: who shares it with whom, and what reaches whom."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from saver.errors import ColdTierError, TierError
from saver.sharing import Sharing

PATIENCE_SECONDS = 5.0


class Work:
    """Counts how often it began, and ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = 0
        self.is_begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self._error = error

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        self.is_begun.set()
        await self.may_end.wait()
        if self._error is not None:
            raise self._error
        return number


@pytest_asyncio.fixture
async def sharing() -> AsyncIterator[Sharing]:
    opened = Sharing()
    yield opened
    await opened.close()
    assert not opened._waiting
    assert not opened._under_way


def callers(sharing: Sharing, work: Work, count: int, key: str = "key") -> list["asyncio.Task[int]"]:
    return [asyncio.create_task(sharing.next(key, work, PATIENCE_SECONDS)) for _ in range(count)]


async def test_callers_at_once_share(sharing: Sharing) -> None:
    work = Work()
    work.may_end.set()

    assert await asyncio.gather(*callers(sharing, work, 100)) == [1] * 100


async def test_nobody_is_given_what_began_before_the_call(sharing: Sharing) -> None:
    work = Work()
    [first] = callers(sharing, work, 1)
    await work.is_begun.wait()

    late = callers(sharing, work, 99)
    work.may_end.set()

    assert await first == 1
    assert await asyncio.gather(*late) == [2] * 99


async def test_current_work_is_given_whenever_it_began(sharing: Sharing) -> None:
    work = Work()
    [first] = callers(sharing, work, 1)
    await work.is_begun.wait()

    late = [asyncio.create_task(sharing.current("key", work)) for _ in range(9)]
    work.may_end.set()

    assert await asyncio.gather(first, *late) == [1] * 10


async def test_other_keys_do_not_wait(sharing: Sharing) -> None:
    held, free = Work(), Work()
    free.may_end.set()
    [first] = callers(sharing, held, 1)
    await held.is_begun.wait()

    assert await asyncio.gather(*callers(sharing, free, 3, "another key")) == [1] * 3

    held.may_end.set()
    assert await first == 1


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_cancelled_caller_takes_nothing_from_the_others(sharing: Sharing, cancelled: int) -> None:
    work = Work()
    [first] = callers(sharing, work, 1)
    await work.is_begun.wait()
    everybody = [first, *callers(sharing, work, 2)]
    await asyncio.wait(everybody, timeout=0)

    everybody[cancelled].cancel()
    await asyncio.wait({everybody[cancelled]})
    work.may_end.set()

    found = await asyncio.gather(*everybody, return_exceptions=True)
    assert isinstance(found.pop(cancelled), asyncio.CancelledError)
    assert found == [n for at, n in enumerate((1, 2, 2)) if at != cancelled]


async def test_error_reaches_all_who_share_it_and_nobody_else(sharing: Sharing) -> None:
    cause = OSError("the server went away")
    error = ColdTierError("no answer", sqlstate="57P01")
    error.__cause__ = cause
    failing, working = Work(error), Work()
    first = callers(sharing, failing, 3)
    await failing.is_begun.wait()

    late = callers(sharing, working, 2)
    failing.may_end.set()
    working.may_end.set()

    failures = await asyncio.gather(*first, return_exceptions=True)
    assert [(str(one), getattr(one, "sqlstate", "")) for one in failures] == [("no answer", "57P01")] * 3
    assert len({id(one) for one in failures}) == 3
    assert all(isinstance(one, ColdTierError) and one.__cause__ is cause for one in failures)
    assert await asyncio.gather(*late) == [1] * 2


async def test_a_caller_waits_no_longer_than_its_limit(sharing: Sharing) -> None:
    work = Work()
    [first] = callers(sharing, work, 1)
    await work.is_begun.wait()

    with pytest.raises(TimeoutError):
        await sharing.next("key", work, 0.02)

    work.may_end.set()
    assert await first == 1


async def test_closing_ends_what_goes_on(sharing: Sharing) -> None:
    work = Work()
    waiting = callers(sharing, work, 1)
    await work.is_begun.wait()
    waiting += callers(sharing, work, 1)
    await asyncio.wait(waiting, timeout=0)

    await sharing.close()

    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, TierError)
