"""The last look of the demo: every thread, read by savers that have nothing in their memory."""

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from saver.config import TierConfig
from saver.connect import Tiers
from saver.survey import survey_hot
from saver.tiered import TieredSaver
from worker.demo.ledger import Ledger
from worker.demo.shop import assistant
from worker.demo.waiting import until


async def settled(tiers: Tiers, seconds: float) -> bool:
    """Wait until everything is archived. False if something still waits after these seconds."""

    async def is_clean() -> bool:
        return not (await survey_hot(tiers)).dirty_threads

    return await until(is_clean, seconds)


async def audit(config: TierConfig, ledger: Ledger) -> None:
    """Compare all threads with what was written, through a new saver and through the stock Postgres saver."""
    async with TieredSaver(config) as saver:
        graph = assistant(saver)
        for thread_id in list(ledger.written):
            state = await graph.aget_state({"configurable": {"thread_id": thread_id}})
            ledger.compare(thread_id, state.values, "a new saver")
    async with AsyncPostgresSaver.from_conn_string(config.postgres_url.get_secret_value()) as stock:
        for thread_id in list(ledger.written):
            found = await stock.aget_tuple({"configurable": {"thread_id": thread_id}})
            values = found.checkpoint["channel_values"] if found else {}
            ledger.compare(thread_id, values, "Postgres by the stock saver")
            ledger.compared_by_stock += 1
