"""The commands of `tier`, each imported when it runs."""

import sys
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

import click

from worker.cli import FOUND, MISUSE

# What `tier --help` says, here so that it need not import them; a test compares it with the commands themselves.
COMMANDS = {
    "config": "Show the configuration in force, secrets hidden.",
    "delete": "Delete threads from both tiers, for good.",
    "doctor": "Check servers, rights, clocks and versions; say what to mend.",
    "demo": "Watch real agents and a worker move threads between two private servers.",
    "demote": "Archive threads and drop them from Redis now.",
    "export": "Write threads into a portable file, as they are in both tiers.",
    "import": "Bring threads in from a file of tier export or another saver, each whole or not at all.",
    "policy": "List, set or remove how long threads of one tenant, or single ones, are kept.",
    "promote": "Bring threads into Redis now.",
    "quarantine": "List threads that Postgres refused, or try them again.",
    "retain": "Delete what the retention policies say, or say what that would be.",
    "show": "Show where a thread is and how large; what is in it only with --values.",
    "status": "Show how many threads each tier has, what waits and who works.",
    "verify": "Compare both tiers row by row, of all threads in Redis or of some.",
}
_MODULES = {"delete": "move", "demote": "move", "import": "bring", "promote": "move"}


class LazyGroup(click.Group):
    """A group that knows the names of its commands and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        function = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(f"worker.cli.{_MODULES.get(cmd_name, cmd_name)}"), function)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above says so
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        # Here and not above: with it comes the whole library.
        from saver.errors import ConfigError, TierError

        try:
            return super().invoke(ctx)
        except ConfigError as error:
            _stop(f"the configuration is wrong: {error}", MISUSE)
        except TierError as error:
            _stop(str(error), FOUND)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="langgraph-checkpoint-tiered")
def tier() -> None:
    """See and steer the two tiers of LangGraph checkpoints: Redis for threads in use, Postgres for every thread.

    The TIER_ variables say where they are. Exit codes: 0 done, 1 something was found or failed, 2 misuse.
    """


def _stop(message: str, code: int) -> NoReturn:
    click.echo(f"tier: {message}", err=True)
    sys.exit(code)
