"""
The demo agent of compose.yaml: customers who order, go away for longer than TIER_DEMOTE_AFTER, and come back.

It needs no model and says nothing random. Every answer is compared with what was said before; a difference ends it with
exit code 1. Metrics of the agent's side are served for Prometheus.
"""

import argparse
import asyncio
import sys
from itertools import count

from langchain_core.runnables import RunnableConfig
from prometheus_client import start_http_server

from saver import TieredSaver
from worker.demo.shop import assistant, order

CUSTOMERS = 200
ARTICLES = ("apples", "pears", "plums")


async def serve(customers: int, pause_seconds: float, rounds: int | None) -> bool:
    """Let each customer order in turn, again and again. False when a basket is not what it should be."""
    async with TieredSaver.from_env() as saver:
        graph = assistant(saver)
        for number in count(1) if rounds is None else range(1, rounds + 1):
            for customer in range(customers):
                config: RunnableConfig = {"configurable": {"thread_id": f"demo-customer-{customer}"}}
                before = (await graph.aget_state(config)).values
                article = ARTICLES[(customer + number) % len(ARTICLES)]
                after = await graph.ainvoke(order(len(before.get("messages", ())), 1, article), config)
                if sum(after["basket"].values()) != sum(before.get("basket", {}).values()) + 1:
                    sys.stderr.write(f"customer {customer}: an order is missing\n")
                    return False
                await asyncio.sleep(pause_seconds)
    return True


def main() -> None:
    """Read the command line and serve."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--customers", type=int, default=CUSTOMERS)
    options.add_argument("--pause-seconds", type=float, default=0.25)
    options.add_argument("--rounds", type=int, help="how often each customer comes; for ever by default")
    options.add_argument("--host", default="127.0.0.1", help="of the metrics")
    options.add_argument("--port", type=int, default=9465, help="of the metrics; 0 serves none")
    chosen = options.parse_args()
    if chosen.port:
        start_http_server(chosen.port, chosen.host)
    is_right = asyncio.run(serve(chosen.customers, chosen.pause_seconds, chosen.rounds))
    sys.exit(0 if is_right else 1)


if __name__ == "__main__":
    main()
