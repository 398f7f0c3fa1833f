"""The command line `loopspec`.

To add a command: write `loopconform/commands/<name>.py` with a click command called `command`, and add one line to
`COMMANDS` below. Modules are imported only when their command runs, so that every command starts fast and none can
break another.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from importlib import metadata
from typing import Any, NoReturn

import click

COMMANDS: dict[str, str] = {
    "chat": "Talk to a model on the reference harness.",
    "check": "Check session logs against every rule of the format.",
    "conform": "Drive an implementation of the loop, and judge it by the law.",
    "diff": "The first difference that matters between two logs.",
    "equal": "Compare a machine with its TLA+ model, state by state.",
    "explore": "Visit every state of a machine within a bound.",
    "fork": "Make a session of its own that begins like another one.",
    "migrate": "Write sessions of older formats as format 4.",
    "mock-model": "Serve a scripted model on this machine, faults included.",
    "run": "Play a scripted conversation and write its session file.",
    "show": "Show a session: turns, steps, messages, tools, requests.",
    "tape": "Show what each request reused of the one before, and why not more.",
    "trace-check": "Hold session logs against the TLA+ model of the loop.",
    "what-if": "What comes of a steer between the abort and the idle?",
}
"""Command name to the line that `loopspec --help` shows. The module is `loopconform.commands.<name>`."""

EXIT_CRASH = 70
"""Exit code when loopspec itself failed (EX_SOFTWARE)."""


def version() -> str:
    """The version of the installed distribution, or `unknown` in a bare checkout."""
    try:
        return metadata.version("loopspec")
    except metadata.PackageNotFoundError:
        return "unknown"


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports a module only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"loopconform.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=2, cutoff=0.4)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" Commands: {', '.join(sorted(COMMANDS))}."
            ctx.fail(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run, and turn every unexpected exception into one sentence and exit code 70."""
        if kwargs.get("standalone_mode") is False:
            return super().main(*args, **kwargs)
        given = args[0] if args else kwargs.get("args")
        debug = "--debug" in (sys.argv[1:] if given is None else given) or bool(os.environ.get("LOOPSPEC_DEBUG"))
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("loopspec: interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError:
            # The reader of our output went away; writing more, also at exit, would only fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(141)
        except Exception as error:
            _crash(error, debug)
        sys.exit(code if isinstance(code, int) else 0)


def _crash(error: Exception, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    else:
        words = " ".join(str(error).split())[:300] or "no further words"
        click.echo(f"loopspec: this is a fault of loopspec itself: {type(error).__name__}: {words}", err=True)
        click.echo("loopspec: run it again as `loopspec --debug …` to see where, and please report it", err=True)
    sys.exit(EXIT_CRASH)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["--help"]})
@click.version_option(version(), prog_name="loopspec")
@click.option("--debug", is_flag=True, help="Show a stack trace when loopspec itself fails.")
def main(debug: bool) -> None:
    """Loopspec: the law of the agent loop, executable.

    Start with `loopspec check DIRECTORY`, which reads session logs and says what is wrong with them.
    """
