"""`loopspec mock-model`: a model server on this machine that says what a script tells it to, faults included."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import click
from pydantic import ValidationError

from loopconform.exit_codes import epilog
from loopconform.plain import printable
from loopconform.script.text import ScriptError, read_file
from loopharness.model.mock_server.script import RAW, Script, of_files
from loopharness.model.mock_server.server import MockServer

Scripts = dict[str, tuple[Script, Path]]


@click.command(
    "mock-model",
    short_help="Serve a scripted model on this machine, faults included.",
    epilog=epilog("mock-model"),
)
@click.argument("scripts", nargs=-1, type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one.")
@click.option("--log", type=click.Path(path_type=Path), metavar="FILE", help="Append each request and answer as JSON.")
@click.option("--control", is_flag=True, help="Let tests put scripts and open gates over HTTP, at /-/NAME.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scripts, for editors, and end.")
@click.pass_context
def command(
    ctx: click.Context, scripts: tuple[Path, ...], port: int, log: Path | None, control: bool, schema: bool
) -> None:
    """Serve SCRIPTS over the protocol of a chat-completions model, on 127.0.0.1, and print the URL.

    A script is YAML or JSON, such as examples/mock/hello.yaml; its answers go to the requests in their order. Raw .sse
    and .http files are sent as they are, one after the other. With several scripts, each has its own URL: the one that
    is printed, with the name of the script behind it.
    """
    if schema:
        click.echo(json.dumps(Script.model_json_schema(), indent=2, ensure_ascii=False))
        return
    if not scripts and not control:
        raise click.UsageError("Missing argument SCRIPTS: a YAML file, such as examples/mock/hello.yaml.")
    loaded = _load(scripts)
    with ExitStack() as stack:
        note: Callable[[dict[str, Any]], None] | None = None
        if log is not None:
            try:
                stream = stack.enter_context(log.open("a", encoding="utf-8"))
            except OSError as error:
                raise click.UsageError(printable(f"{log} cannot be written: {error.strerror}")) from error

            def note(record: dict[str, Any]) -> None:
                stream.write(json.dumps(record, ensure_ascii=True) + "\n")
                stream.flush()

        try:
            anyio.run(_serve, MockServer(loaded, note, control=control), list(loaded), port)
        except OSError as error:
            raise click.UsageError(f"port {port} cannot be used: {error.strerror or error}") from error
    ctx.exit(0)


async def _serve(server: MockServer, names: list[str], port: int) -> None:
    listener, url = await server.listen(port)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, listener)
            click.echo(url)
            if len(names) > 1:
                for name in names:
                    click.echo(f"{url}/{name}")
            async for _ in signals:
                group.cancel_scope.cancel()
                break


def _load(paths: tuple[Path, ...]) -> Scripts:
    raw = [path for path in paths if path.suffix in RAW]
    loaded: Scripts = {}
    for path in paths:
        name = path.stem
        if path in raw:
            if not path.is_file():
                raise click.UsageError(printable(f"{path} is no file"))
            continue
        if name in loaded:
            raise click.UsageError(printable(f"two scripts are called {name!r}; give one of them another name"))
        loaded[name] = (_script(path), path.parent)
    if raw:
        loaded.setdefault(raw[0].stem, (of_files([path.absolute() for path in raw]), Path()))
    return loaded


def _script(path: Path) -> Script:
    try:
        read = read_file(path)
    except ScriptError as error:
        raise click.UsageError(printable(f"{path}:{error.line}: {error.reason}. {error.advice}")) from error
    try:
        return Script.model_validate(read.data)
    except ValidationError as error:
        lines = []
        for detail in error.errors(include_url=False, include_context=False, include_input=False)[:8]:
            where = ".".join(str(part) for part in detail["loc"])
            line = next(
                (read.lines[at] for n in range(len(detail["loc"]), -1, -1) if (at := detail["loc"][:n]) in read.lines),
                0,
            )
            lines.append(f"{path}:{line}: {where}: {detail['msg']}")
        raise click.UsageError(printable("; ".join(lines)) + ". See `loopspec mock-model --schema`.") from error
