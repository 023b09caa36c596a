"""`tier import`: bring threads in, from a portable file or from the Redis of another saver."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import click

from jobs.peer import Peer, Survey, open_peer
from jobs.peer_plainredis import PlainRedis
from jobs.peer_redis import RedisJson
from jobs.portable import DamagedFile, PortableThread, frames, unpacked
from jobs.transfer import Brought, ThreadExists, bring_in
from saver.connect import Tiers, connect
from saver.errors import ColdTierError, InvalidThread
from saver.foreign import Unreadable
from worker.cli import FOUND, output
from worker.cli.reach import quiet_pool
from worker.config import WorkerConfig

PEERS: dict[str, Callable[..., Peer]] = {"redis": RedisJson, "plainredis": PlainRedis}


@click.command("import")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "peer", type=click.Choice(list(PEERS)), help="From langgraph-checkpoint-redis or -plainredis.")
@click.option("--url", metavar="URL", help="The Redis of that saver; `-` reads it from standard input.")
@click.option("--prefix", help="What its keys begin with, if that was changed there.")
@click.option("--merge", is_flag=True, help="Add to threads that are here, instead of leaving them as they are.")
def import_(file: Path | None, peer: str | None, url: str | None, prefix: str | None, merge: bool) -> None:
    """Bring threads in from a file of tier export or another saver, each whole or not at all.

    Every thread is compared with what was to come when it is in Postgres. May be repeated: what is there already is
    left alone, and a thread that went on where it comes from is brought up to that. Nothing is changed there.
    """
    if (file is None) == (peer is None) or (peer is None) != (url is None):
        raise click.UsageError("name a file, or say --from with --url")
    if prefix is not None and (peer is None or not prefix.strip(":")):
        raise click.UsageError("--prefix is a text that goes with --from")
    if file is not None:
        counts = asyncio.run(_from_file(WorkerConfig.load(), file, merge=merge))
    else:
        address = sys.stdin.readline().strip() if url == "-" else str(url)
        counts = asyncio.run(_from_peer(WorkerConfig.load(), str(peer), address, prefix, merge=merge))
    click.echo(f"imported {output.threads(counts['added'])}")
    if there := counts[Brought.THERE]:
        click.echo(f"{output.threads(there)} {'was' if there == 1 else 'were'} there already")
    if counts["refused"]:
        sys.exit(FOUND)


async def _from_file(config: WorkerConfig, path: Path, *, merge: bool) -> Counter[str]:
    quiet_pool()
    counts: Counter[str] = Counter()
    async with connect(config) as tiers:
        with open(path, "rb") as file, output.progress() as bar:  # noqa: ASYNC230, PTH123 - nothing else runs here
            size = os.fstat(file.fileno()).st_size
            task, end = bar.add_task("importing", total=size), 0
            for frame in frames(file):
                counts[await _bring(tiers, unpacked(frame), merge=merge)] += 1
                bar.update(task, completed=frame.end)
                end = frame.end
    if end < size:
        raise DamagedFile("the file was cut off: its last thread is not whole; all before it are here")
    return counts


async def _from_peer(config: WorkerConfig, kind: str, url: str, prefix: str | None, *, merge: bool) -> Counter[str]:
    quiet_pool()
    counts: Counter[str] = Counter()
    async with open_peer(url) as source, connect(config) as tiers:
        peer: Peer = PEERS[kind](source, *([prefix] if prefix else []))
        with closing(Survey()) as survey, output.progress() as bar:
            looking = bar.add_task("looking", total=None)
            await peer.survey(survey)
            bar.remove_task(looking)
            task = bar.add_task("importing", total=survey.count())
            async for thread_id, thread in _threads(peer, survey):
                counts["found"] += 1
                if isinstance(thread, PortableThread):
                    counts[await _bring(tiers, thread, merge=merge)] += 1
                elif thread is not None:
                    counts[_refused(thread_id, thread)] += 1
                bar.advance(task)
    if not counts["found"]:
        raise Unreadable(f"no thread of langgraph-checkpoint-{kind} is there; do --from, --url and --prefix say where?")
    return counts


async def _threads(peer: Peer, survey: Survey) -> AsyncIterator[tuple[str, PortableThread | Exception | None]]:
    """Each thread that was found: as it is, why it cannot be read, or None if it is gone since."""
    for thread_id in survey.thread_ids():
        try:
            yield thread_id, await peer.read(thread_id, survey.names(thread_id))
        except (Unreadable, InvalidThread) as error:
            yield thread_id, error


async def _bring(tiers: Tiers, thread: PortableThread, *, merge: bool) -> str:
    try:
        return await bring_in(tiers, thread, merge=merge)
    except (ThreadExists, InvalidThread) as error:
        return _refused(thread.thread_id, error)
    except ColdTierError as error:
        if not error.is_refusal:
            raise
        return _refused(thread.thread_id, error)


def _refused(thread_id: str, reason: Exception) -> str:
    output.message(f"thread {output.shown(thread_id)} was not imported: {reason}")
    return "refused"
