"""A task path may be long, and is checked to its end."""

import pytest

from saver import InvalidThread, TieredSaver
from tests.builders import Thread


async def test_nul_far_back_in_a_task_path_is_refused(saver: TieredSaver) -> None:
    thread = Thread(saver, "t")
    await thread.put({"x": [1]})

    with pytest.raises(InvalidThread):
        await saver.aput_writes(thread.config(thread.checkpoint_id), [("x", 1)], "task", "p" * 1000 + "\0")
