"""
One contestant in a process of its own: `python -m tests.bench.worker NAME REDIS_URL POSTGRES_URL`.

It says that it is ready, then answers each line of JSON on standard input with one on standard output, and ends with
the input. So a caller can give every contestant its turn in every round.
"""

import asyncio
import gc
import json
import os
import sys
from typing import TextIO

from tests.bench.contestants import CONTESTANTS, Urls
from tests.bench.measures import MEASURES


def _own_output() -> TextIO:
    """Standard output for the answers alone: what a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


async def serve(name: str, urls: Urls, answers: TextIO) -> None:
    def answer(what: dict[str, object]) -> None:
        print(json.dumps(what), file=answers, flush=True)

    contestant = CONTESTANTS[name]
    async with contestant.open(urls) as saver:
        answer({"version": contestant.versions})
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            gc.collect()
            try:
                values = await MEASURES[asked["measure"]](saver, asked["messages"], asked["count"])
            except NotImplementedError as error:
                answer({"fault": f"{type(error).__name__}: {error}"})
            else:
                answer({"values": values})


def main() -> None:
    name, redis_url, postgres_url = sys.argv[1:]
    asyncio.run(serve(name, Urls(redis_url, postgres_url), _own_output()))


if __name__ == "__main__":
    main()
