"""
`python -m tests.peers REDIS_URL CLASS`: write the scenes with langgraph-checkpoint-redis, in the environment of it.

Prints what it reads back, and the documents that are in Redis then.
"""

import json
import sys
from importlib import import_module
from typing import Any

import redis

from tests.peers.scenes import newest, play, read


def documents(url: str) -> list[Any]:
    with redis.Redis.from_url(url) as client:
        keys = [key for prefix in ("checkpoint:", "checkpoint_write:") for key in client.scan_iter(f"{prefix}*")]
        return [json.loads(client.execute_command("JSON.GET", key)) for key in sorted(keys)]


def main(url: str, name: str) -> None:
    kind = getattr(import_module("langgraph.checkpoint.redis" + (".shallow" if "Shallow" in name else "")), name)
    with kind.from_conn_string(url) as saver:
        saver.setup()
        play(saver)
        told = {"read": read(saver), "newest": newest(saver), "documents": documents(url)}
        print(json.dumps(told, sort_keys=True))  # noqa: T201 - the result of a command


if __name__ == "__main__":
    main(*sys.argv[1:])
