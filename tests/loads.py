"""How much a test does: what shows the point in seconds, or with TEST_LOAD=full as much as its case names."""

import os

IS_FULL = os.environ.get("TEST_LOAD") == "full"


def load(full: int, quick: int) -> int:
    return full if IS_FULL else quick
