"""What README and the runbook say is true: examples run, files, variables, defaults and commands exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worker.cli.group import COMMANDS
from worker.config import WorkerConfig

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "deploy/RUNBOOK.md", "deploy/GUIDE.md")
TEXTS = {name: (ROOT / name).read_text() for name in PAGES}
MOST_LINES = 130
EXAMPLE_WITHIN_LINES = 25


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def rows_of(heading: str, text: str = README) -> list[list[str]]:
    """The cells of the first table after a heading."""
    lines = text.partition(f"## {heading}\n")[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    table = [line for line in lines[start + 1 :] if line.startswith("|") or line]
    end = next((number for number, line in enumerate(table) if not line.startswith("|")), len(table))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[:end]]


def test_readme_is_one_screen_with_an_example_at_its_top() -> None:
    lines = README.splitlines()

    assert len(lines) <= MOST_LINES
    assert "```" in lines[:EXAMPLE_WITHIN_LINES]


def test_the_example_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    [example] = blocks(README, "python")
    said = re.search(r"print\(.*\)  # (.*)$", example, re.MULTILINE)
    assert said

    ran = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False
    )

    assert (ran.returncode, ran.stdout.strip()) == (0, said[1]), ran.stderr


def test_the_commands_of_make_exist() -> None:
    wanted = re.findall(r"^make (\w+)", "".join(blocks(README, "sh")), re.MULTILINE)

    assert wanted == ["demo", "test"]
    for target in wanted:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_exists(page: str) -> None:
    named = re.findall(r"`((?:saver|jobs|worker|deploy|tests)/[\w/.-]+|[A-Z]+\.md)`", TEXTS[page])
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXTS[page])
    paths = {ROOT / name for name in named} | {(ROOT / page).parent / name for name in linked}

    assert paths
    assert [path for path in sorted(paths) if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_linked_section_exists(page: str) -> None:
    for name, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", TEXTS[page]):
        text = ((ROOT / page).parent / name).read_text() if name else TEXTS[page]
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert section in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_named_command_and_variable_exists(text: str) -> None:
    variables = {f"TIER_{name.upper()}" for name in WorkerConfig.model_fields}

    assert set(re.findall(r"`tier ([a-z]+)", text)) <= set(COMMANDS)
    assert set(re.findall(r"\bTIER_[A-Z_]*[A-Z]", text)) <= variables


def test_the_defaults_of_the_environment_table_are_true() -> None:
    required: dict[str, Any] = {"redis_url": "redis://h:6379/0", "postgres_url": "postgresql://h/d"}
    effective = WorkerConfig(**required).effective()
    told = {cells[0].strip("`"): cells[1].strip("`") for cells in rows_of("Run it")}

    assert len(told) > 5
    for variable, default in told.items():
        if default == "required":
            assert variable.removeprefix("TIER_").lower() in required
        else:
            assert effective[variable] == default


def test_one_checkpoint_can_be_followed_through_files_that_exist() -> None:
    steps = rows_of("Follow one checkpoint")

    assert [step[0] for step in steps] == [str(number) for number in range(1, 10)]
    for step in steps:
        for name in re.findall(r"`([^`]+)`", step[1]):
            source = (ROOT / name).read_text()
            if name.endswith(".py"):
                assert ast.get_docstring(ast.parse(source)), f"{name} does not say what it is"
