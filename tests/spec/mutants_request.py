"""Named faults of what makes a request: the folds over headers, the routes, and the call that is bound to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.spec import mutation

from loopspec import calls, compaction
from loopspec import request as requests
from loopspec.worlds import request_world


class Mutant(NamedTuple):
    """One fault, the promise that it breaks, and where to look: bound and session format."""

    name: str
    target: str
    old: str
    new: str
    killer: str
    bound: str = "choice"
    session_format: int = 0


M = Mutant
MUTANTS: tuple[Mutant, ...] = (
    M("a new loop continues the old", "seed", "headed and logged is not None", "logged is not None", "L-REQ-4"),
    M("every proposal is the first", "seed", "headed and logged is not None", "False", "L-REQ-4"),
    M("supplied fields stick", "later_seed", "if _mark(logged, name)", "if False", "L-REQ-4"),
    M("explicit fields are dropped", "later_seed", "if _mark(logged, name)", "if True", "L-REQ-4"),
    M("a supplied effort is taken up", "_keeps_effort", ' and not _mark(logged, "reasoningEffort")', "", "L-REQ-4"),
    M("the effort of another route is taken up", "_keeps_effort", "same_route and ", "", "L-REQ-4"),
    M("no effort is taken up again", "_keeps_effort", "same_route and ", "False and ", "L-REQ-4"),
    M("marks are lost", "adapter_defaults", "name not in proposed and name in prepared", "False", "L-REQ-9"),
    M("explicit fields are marked", "adapter_defaults", "name not in proposed and name in prepared",
      "name in prepared", "L-REQ-9"),
    M("no cap is supplied", "supplied", 'if "maxTokens" not in proposal and', "if False and", "L-REQ-13"),
    M("an explicit cap is overwritten", "supplied", 'if "maxTokens" not in proposal and', "if", "L-REQ-13", "headers"),
    M("no effort is supplied", "supplied", 'if "reasoningEffort" not in proposal and', "if False and", "L-REQ-13"),
    M("an explicit effort is overwritten", "supplied", 'if "reasoningEffort" not in proposal and', "if", "L-REQ-13"),
    M("any effort will do", "supports_effort", "return effort is None or effort in", "return True or effort in",
      "unsupported", "headers"),
    M("a resumed log is fresh", "header_reason", '"initial" if logged is None else "resume"', '"initial"', "L-REQ-9"),
    M("every header is resumed", "header_reason", '"initial" if logged is None else "resume"', '"resume"', "L-REQ-9"),
    M("changes go unrecorded", "header_reason", "not same_header(logged, proposed)", "False", "L-REQ-9"),
    M("every header is a change", "header_reason", "not same_header(logged, proposed)", "True", "L-REQ-9"),
    M("series go unrecorded", "header_reason", '"series" if starts_series else None', "None", "L-REQ-9", "surface", 4),
    M("a rewritten surface is the same series", "starts_series", "asked or moved or", "asked or", "L-REQ-9",
      "surface", 4),
    M("headers differ by provider only", "same_header", "for name in CONFIG_FIELDS", 'for name in ("provider",)',
      "L-REQ-9", "routes"),
    M("marks do not count", "same_header", "for name in ADAPTER_FIELDS", "for name in ()", "L-REQ-9"),
    M("the prompt does not count", "same_header", '_same_field(left, right, "system")', "True", "L-REQ-9"),
    M("tools do not count", "same_header", 'same_text(left.get("tools"), right.get("tools"))', "True", "L-REQ-9"),
    M("a context is never due", "context_due", "logged is not None and same_value(logged, context)", "True",
      "L-REQ-11"),
    M("a context is always due", "context_due", "logged is not None and same_value(logged, context)", "False",
      "L-REQ-11"),
    M("a window is forgotten", "context_due", "if context_window is not None:", "if False:", "L-REQ-11"),
    M("format 4 keeps the prompt in the header", "plan", '"" if law.streams_are_embedded else system', "system",
      "L-REQ-13", "headers", 4),
    M("format 0 loses the prompt", "plan", '"" if law.streams_are_embedded else system', '""', "L-REQ-13"),
    M("series in format 0", "plan", "law.streams_are_embedded and headed", "headed", "L-REQ-9", "surface"),
    M("format 4 derives early", "derives_at_dispatch", "law.admission_follows_preparation", "False", "INV-L4",
      "surface", 4),
    M("format 0 derives late", "derives_at_dispatch", "law.admission_follows_preparation", "True", "L-REQ-13",
      "surface"),
    M("the config is left out", "build_request", '**header["config"], ', '"provider": header["config"]["provider"], ',
      "INV-L4"),
    M("any provider will do", "route_refusal", 'config.get("provider") and config.get("model")', "True", "crash"),
    M("nobody is looked up", "serving", "routes.get(provider) if isinstance(provider, str) else None", "None", "INV-L5",
      "routes"),
    M("a route is kept", "rerouted", "if holder is not registration", "if True", "INV-L5", "routes"),
    M("others lose their routes", "rerouted", "{**others, **dict", "{**dict", "INV-L5", "routes"),
    M("an unserved route is resolved", "prepare", "if not registration:", "if False:", "crash", "routes"),
    M("the registration is not kept", "prepare", "registration=registration)", "registration=NOBODY)", "crash",
      "routes"),
    M("calls can be sent before they are prepared", "may_dispatch", 's.stage == "prepared"', "True", "equivalent",
      "routes"),
)  # fmt: skip
"""`crash`: the surroundings have nothing to go on with. `equivalent`: every labelled edge is the same; that a call is
sent once is for `tests/spec/test_calls.py`, here the loop never tries twice."""


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Put a mutant in place, and take it out again."""
    fault = mutation.Mutant(mutant.name, mutant.target, mutant.old, mutant.new, "", mutant.killer)
    modules = {"request": requests, "calls": calls, "compaction": compaction, "world": request_world}
    with mutation.applied(fault, {"calls": calls.rules}, modules):
        yield
