"""The versions of what is installed here, against what this release asks for."""

import platform
import re
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

from saver.config import TierConfig
from worker.doctor.report import Report

DISTRIBUTION = "langgraph-checkpoint-tiered"
_SHOWN = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-postgres", "redis", "psycopg", "arq")
_TRIED_WITH = {"langgraph": "dev"}  # agents bring it; the range is the one that the tests run with


def examine(config: TierConfig, report: Report) -> None:
    """Compare every requirement of agents and workers, and LangGraph itself if it is here."""
    report.note(f"Python {platform.python_version()}")
    for requirement in _requirements():
        name, installed = requirement.name, _installed(requirement.name)
        if installed is None:
            if name not in _TRIED_WITH:
                report.find(f"{name} is not installed", "workers do not start", f"run: pip install '{requirement}'")
        elif not requirement.specifier.contains(installed, prereleases=True):
            report.find(
                f"{name} is {installed}; this release asks for {requirement.specifier}",
                "agents or workers may fail in ways that no test has seen",
                f"run: pip install '{name}{requirement.specifier}'",
            )
        elif name in _SHOWN:
            report.note(f"{name} {installed}")
    if config.encryption_key is not None and _installed("pycryptodome") is None:
        report.find(
            "TIER_ENCRYPTION_KEY is set and pycryptodome is not installed",
            "an agent in this environment does not start",
            "run: pip install pycryptodome",
        )


def _requirements() -> list[Requirement]:
    """Those of the base and of the extra `worker`; of the other extras only what is named above."""
    found = []
    for line in metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(line)
        extra = re.search(r"""extra == ['"](\w+)['"]""", line)
        if extra is None or extra[1] == "worker" or _TRIED_WITH.get(requirement.name) == extra[1]:
            requirement.marker, requirement.extras = None, set()
            found.append(requirement)
    return found


def _installed(name: str) -> Version | None:
    try:
        return Version(metadata.version(name))
    except metadata.PackageNotFoundError:
        return None
