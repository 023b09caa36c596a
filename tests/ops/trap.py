"""A class that tells when somebody builds it: its constructor creates a file."""

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TRAP_FILE"


@dataclass
class Trap:
    """Harmless but for the file."""

    a: int

    def __post_init__(self) -> None:
        Path(os.environ[VARIABLE]).touch()
