"""Numbers that no process had before, whoever asks."""

import os

from saver import unique


def _token_of_a_fork() -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, unique.token().encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(read, 100).decode()


def test_tokens_and_tags_differ_from_each_other() -> None:
    assert len({unique.token() for _ in range(1000)}) == 1000
    assert len({unique.tag(8) for _ in range(1000)}) == 1000


def test_forks_do_not_count_on_from_their_parent() -> None:
    tokens = {_token_of_a_fork(), _token_of_a_fork(), unique.token()}

    assert len({token[:16] for token in tokens}) == 3
