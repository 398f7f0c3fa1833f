"""`loopspec chat`: a conversation with a model, on the reference harness."""

from __future__ import annotations

import datetime
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import anyio
import click
import yaml

from loopconform.chat.journal import Journal, JournalError
from loopconform.chat.screen import Screen
from loopconform.chat.talk import HELP, Options, converse
from loopconform.exit_codes import epilog
from loopconform.plain import Refused, printable
from loopharness.model.deepseek import DeepSeekSettings
from loopharness.model.deepseek.convert import EFFORTS
from loopharness.model.deepseek.settings import API_KEY, BASE_URL
from loopharness.workspace import Roots
from loopspec.tape import config

NO_KEY = (
    f"{API_KEY} is not set. Set it to your key, or talk to a scripted model on this machine: start "
    "`loopspec mock-model examples/mock/hello.yaml`, and then `loopspec chat --base-url` with the URL that it prints."
)


@click.command(
    "chat",
    short_help="Talk to a model on the reference harness.",
    epilog=epilog("chat"),
)
@click.option("--base-url", metavar="URL", help=f"The model server. [default: {BASE_URL}, else the public API]")
@click.option("--model", default="deepseek-v4-flash", show_default=True, help="Which model to ask for.")
@click.option("--effort", type=click.Choice(EFFORTS), default="high", show_default=True, help="How much it thinks.")
@click.option("--persona", default="", metavar="TEXT", help="Say in the system prompt who the model is.")
@click.option("--resume", type=click.Path(path_type=Path), metavar="FILE", help="Go on with a session file.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The session file to write, .jsonl or .jsonl.zstd. By default a new one in this directory.",
)
@click.option(
    "--slice", "sliced", is_flag=True, help="Seal finished turns into tape entries, with tools to recall them."
)
@click.option(
    "--slice-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings of the slice policy, a YAML mapping such as `history: {keepRecentTurns: 2}`. Implies --slice.",
)
@click.option(
    "--tools",
    "roots",
    type=click.Path(),
    multiple=True,
    metavar="ROOT",
    help="Let the model read, list, search, write and edit files below this directory, and run commands in it. You are "
    "asked before anything but reading. Give it again for a further directory.",
)
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    metavar="TOOL",
    help="Do not ask about this tool, such as edit, or '*' for any.",
)
@click.option("--compact", is_flag=True, help="Summarise older history when it outgrows the model's context window.")
@click.option("--once", metavar="TEXT", help="Say this, wait for the answer, and end.")
@click.pass_context
def command(
    ctx: click.Context,
    base_url: str | None,
    model: str,
    effort: str,
    persona: str,
    resume: Path | None,
    out: Path | None,
    sliced: bool,
    slice_config: Path | None,
    roots: tuple[str, ...],
    allowed: tuple[str, ...],
    compact: bool,
    once: str | None,
) -> None:
    """Talk to a model. Text and thinking appear as they come; what you type while it works steers it.

    Everything is written to a session file, which `loopspec check` and `loopspec show` read and --resume goes on with.
    Ctrl-C cancels a turn, twice it ends the program.

    --tools guards against paths that lead out of ROOT. It is no sandbox: a command that you allow has all your rights.
    Without a terminal nobody can be asked, so that what is not allowed is refused.
    """
    if resume is not None and out is not None:
        raise click.UsageError("--resume goes on in its own file; leave --out, or copy the file first.")
    tape = _tape(slice_config) if sliced or slice_config is not None else None
    _check_roots(roots, allowed)
    settings = _settings(base_url, effort)
    options = Options(settings, model, once, persona, sys.stdin.isatty(), tape, roots, allowed, compact)
    try:
        journal = Journal.create(out or _fresh_name()) if resume is None else Journal.resume(resume)
    except JournalError as error:
        raise Refused(printable(str(error)), error.code) from error
    terminal = sys.stdout.isatty()
    screen = Screen(
        sys.stdout.fileno(), colour=terminal and "NO_COLOR" not in os.environ, prompt=terminal and once is None
    )
    if journal.was_torn:
        kept = f"{journal.path} ended in the middle of a write; {len(journal.events):,} events were kept"
        click.echo(printable(kept), err=True)
    if once is None:
        screen.line(f"{model} at {options.settings.base_url}; this conversation is in {journal.path}", dim=True)
        if journal.header is not None:
            screen.line(f"taken up: session {journal.header['id']}, {len(journal.events):,} events", dim=True)
        if terminal:
            screen.line(HELP, dim=True)
    ctx.exit(anyio.run(converse, options, journal, screen, sys.stdin.fileno()))


def _check_roots(roots: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    if allowed and not roots:
        raise click.UsageError("--allow speaks of the tools that --tools ROOT mounts; give that, too.")
    try:
        if roots:
            Roots(*roots).close()
    except ValueError as error:
        raise click.UsageError(printable(f"--tools: {error}.")) from error


def _settings(base_url: str | None, effort: str) -> DeepSeekSettings:
    given: dict[str, Any] = {"effort": effort} if base_url is None else {"effort": effort, "base_url": base_url}
    try:
        settings = DeepSeekSettings(**given)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    if settings.api_key() is None:
        if not settings.is_local:
            raise click.UsageError(NO_KEY)
        settings = DeepSeekSettings(**given, api_key=lambda: "local")
    return settings


def _tape(path: Path | None) -> dict[str, Any]:
    """The settings of the slice policy; refused before anything is opened."""
    if path is None:
        return {}
    try:
        settings = yaml.safe_load(path.read_bytes()) or {}
        config.parse(settings)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not YAML: {printable(str(error))}") from error
    except config.ConfigError as error:
        raise click.UsageError(f"{path}: {printable(str(error))}") from error
    return dict(settings)


def _fresh_name() -> Path:
    day = datetime.datetime.now().strftime("%Y-%m-%d")
    return Path(f"chat-{day}-{secrets.token_hex(4)}.jsonl")
