"""The tests of the log contract, tested: each mutant breaks one guard or field, and a named test must notice.

A mutant is a textual change of one function. The changed function's code is put in the place of the real one,
so every module that imported it sees the change; afterwards the real code is put back.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

HERE = Path(__file__).parent

# module, test module, test function, real text, mutant text
MUTANTS: list[tuple[str, str, str, str, str]] = [
    # a shared buffer must never be written behind somebody's view
    ("kernel.prefix", "prefix", "test_growth_along_one_line_copies_nothing",
     "if len(buffer) == length - self._offset and length:", "if length:"),
    ("kernel.prefix", "prefix", "test_growth_along_one_line_copies_nothing",
     "if len(buffer) == length - self._offset and length:", "if False:"),
    ("kernel.prefix", "prefix", "test_an_empty_value_keeps_nothing_alive", " and length:", ":"),
    ("kernel.prefix", "prefix", "test_cutting_the_end_and_growing_again_copies_a_logarithm",
     "if own <= _SMALL:", "if True:"),
    ("kernel.prefix", "prefix", "test_cutting_the_end_and_growing_again_copies_a_logarithm",
     "frozen[keep - 1][1] < 2 * size", "False"),
    ("kernel.prefix", "prefix", "test_cutting_the_end_and_growing_again_copies_a_logarithm",
     "joined += items[:used]", "joined += items"),
    ("kernel.prefix", "prefix", "test_position_looks_past_the_near_end", "min(used, low - offset)", "low - offset"),
    ("values", "values", "test_what_python_might_confuse",
     "isinstance(left, bool) or isinstance(right, bool) or ", ""),
    ("stream", "stream", "test_assembly", "return assembly  # a second start of a known index is ignored", "pass"),
    ("stream", "stream", "test_stragglers_leave_no_trace",
     "return assembly  # stragglers after the close are ignored", "pass"),
    ("stream", "stream", "test_assembly", "return assembly  # the first close wins", "pass"),
    ("stream", "stream", "test_assembly", 'chunk.get("name") or name', 'chunk.get("name", name)'),
    ("stream", "stream", "test_assembly", 'partial.call_id or f"call-{partial.at}"', "partial.call_id"),
    ("stream", "stream", "test_assembly", 'reason["kind"] == "max-tokens" and ', ""),
    ("stream", "stream", "test_assembly",
     'reason["kind"] == "max-tokens" and block["type"] == "tool-call"', "False"),
    ("stream", "stream", "test_the_last_finish_and_usage_win",
     'Assembly(partials, usage, chunk["reason"]', 'Assembly(partials, usage, finish or chunk["reason"]'),
    ("stream", "stream", "test_the_last_finish_and_usage_win",
     'Assembly(partials, chunk["usage"],', 'Assembly(partials, usage or chunk["usage"],'),
    ("stream", "stream", "test_replay_state_is_pruned_with_the_blocks", "if len(notes) != len(keep):", "if False:"),
    ("stream", "stream", "test_replay_state_is_pruned_with_the_blocks", "if kept]}", "]}"),
    ("stream", "stream", "test_what_survives_a_cancel", ".strip(BLANK)", ".strip()"),
    ("stream", "stream", "test_what_survives_a_cancel", "_type(partial) in _TEXT_BLOCKS and ", ""),
    ("stream", "stream", "test_illegal_streams", "if grammar.finish is not None:", "if False:"),
    ("stream", "stream", "test_illegal_streams", "if grammar.usage_seen:", "if False:"),
    ("stream", "stream", "test_illegal_streams", "if opened != block_type:", "if False:"),
    ("stream", "stream", "test_legal_streams", 'reason not in ("error", "aborted", "max-tokens")', "True"),
    ("stream", "stream", "test_a_cut_stream_needs_no_finish", "and not cut", ""),
    ("surface", "surface", "test_illegal_events_are_named", "if latest >= seq:", "if latest > seq:"),
    ("surface", "surface", "test_illegal_events_are_named", "if not sources and not is_assistant:", "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", 'if dialect == "v4" and is_assistant:', "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", "if len(set(sources)) != len(sources):", "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", "if first > last:", "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", "if uncited:", "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", "if len(shadowed) != 1 or ", "if "),
    ("surface", "surface", "test_illegal_events_are_named",
     'or shadowed[0]["type"] != "tool/result"', "or False"),
    ("surface", "surface", "test_illegal_events_are_named",
     'and (event["type"] != "system/message" or len(shadowed) != 1)', "and len(shadowed) != 1"),
    ("surface", "surface", "test_illegal_events_are_named",
     'and (event["type"] != "system/message" or len(shadowed) != 1)', 'and event["type"] != "system/message"'),
    ("surface", "surface", "test_illegal_events_are_named", "if seq in seen:", "if False:"),
    ("surface", "surface", "test_illegal_events_are_named", "if not rising or ", "if "),
    ("surface", "surface", "test_illegal_events_are_named", 'and operation["op"] == "replace"', ""),
    ("surface", "surface", "test_illegal_events_are_named", "and not isinstance(value, bool)", ""),
    ("surface", "surface", "test_legal_events_pass", "if not sources and not is_assistant:", "if not sources:"),
    ("surface", "surface", "test_legal_events_pass", 'if foreign and surface.dialect == "v4":', "if False:"),
    ("surface", "surface", "test_a_system_message_cannot_be_appended_behind_another_head",
     "or protected_head(surface) is not None", "or True"),
    ("surface", "surface", "test_a_blank_head_stays_protected_and_shows_nothing",
     'event["type"] == "tool/result" or len(message["content"]) > 0', "True"),
    ("surface", "surface", "test_offloads_add_up_and_leave_the_log_alone",
     "offloaded.get(seq, frozenset()) | frozenset(positions)", "frozenset(positions)"),
    ("surface", "surface", "test_offloads_add_up_and_leave_the_log_alone",
     "projections=self.projections + 1", "projections=self.projections"),
    ("surface", "surface", "test_real_logs_fold_without_a_breach", ".extend(self.nodes[after:])", ""),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log", "and not streaming", ""),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log",
     'return bool(event["data"]["chunk"]["type"] != "finish")', "return True"),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log",
     'if event_type in ("step/start", "assistant/message"):', "if False:"),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log", '("system", "tools")', '("system",)'),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log", '**header["config"], ', ""),
    ("request", "request", "test_every_captured_request_is_rebuilt_from_its_log",
     'request["sessionId"] = session_id', 'request["sessionId"] = ""'),
    ("request", "request", "test_the_worked_example_of_format_4", 'event.get("surfaceOp") == "append"', "False"),
    ("request", "request", "test_what_makes_two_headers_differ",
     'and same_text(left.get("tools"), right.get("tools"))', ""),
    ("request", "request", "test_what_makes_two_headers_differ", "same_text(left.get", "same_value(left.get"),
    ("request", "request", "test_what_makes_two_headers_differ",
     "and all(_mark(left, name) == _mark(right, name) for name in ADAPTER_FIELDS)", ""),
    ("request", "request", "test_what_makes_two_headers_differ", 'and _same_field(left, right, "system")', ""),
    ("request", "request", "test_real_logs_give_the_reasons_that_were_recorded",
     "if first_of_instance:", "if logged is None:"),
    ("request", "request", "test_header_reasons", '"series" if starts_series else None', "None"),
    ("request", "request", "test_when_a_context_record_is_due", "if context_window is not None:", "if False:"),
    ("request", "request", "test_the_seed_of_the_first_request", "return same_route and ", "return "),
    ("request", "request", "test_the_seed_of_the_first_request", ' and not _mark(logged, "reasoningEffort")', ""),
    ("request", "request", "test_the_seed_of_later_requests_forgets_what_the_adapter_filled_in",
     "if _mark(logged, name)", "if False"),
    ("request", "request", "test_markers", "name not in proposed and ", ""),
    ("context", "context", "test_when_a_candidate_is_due", 'retained.kind == "never" or ', ""),
    ("context", "context", "test_when_a_candidate_is_due", " or retained.text == CLEARED", ""),
    ("context", "context", "test_when_a_candidate_is_due", "if retained.text == text:", "if False:"),
    ("context", "context", "test_a_replacement_that_cites_it_hides_it", "if replaces and ", "if "),
    ("context", "context", "test_a_snapshot_that_is_not_one_text_block_equals_none",
     "if single else None", "if content else ''"),
    ("context", "context", "test_restoring", "key=lambda item: item[0]", "key=lambda item: -item[0]"),
    ("system_prompt", "system_prompt", "test_the_plan",
     "in_history and continues_series and rendered", "in_history and rendered"),
    ("system_prompt", "system_prompt", "test_the_plan", "in_history and continues_series and rendered",
     "in_history and continues_series"),
    ("system_prompt", "system_prompt", "test_the_plan",
     "for node in later if node.text != \"\")", "for node in later)"),
    ("system_prompt", "system_prompt", "test_the_plan",
     "return (*blanked, ReplaceSystem(head.seq, rendered))", "return (ReplaceSystem(head.seq, rendered), *blanked)"),
    ("accounting", "accounting", "test_accounts", 'and reason["kind"] != "completed"', ""),
    ("accounting", "accounting", "test_accounts", 'return accounts if data["inserted"] else ', "return "),
    ("accounting", "accounting", "test_accounts", "dropped_unrun=False)", "dropped_unrun=accounts.dropped_unrun)"),
    ("accounting", "accounting", "test_accounts", "stepped=False, claimed=False", "stepped=False"),
    ("log.packed", "log_packed", "test_the_writers_own_rows_are_reproduced", "if run >= ROW_RUN:", "if run > ROW_RUN:"),
    ("log.packed", "log_packed", "test_malformed_rows_say_where_and_why",
     "if len(gaps) != len(members) - 1:", "if False:"),
    ("log.packed", "log_packed", "test_malformed_rows_say_where_and_why", "if not members:", "if False:"),
    ("log.packed", "log_packed", "test_malformed_rows_say_where_and_why",
     "if seq0 + len(times) - 1 > SAFE_INTEGER:", "if False:"),
    ("log.packed", "log_packed", "test_a_name_on_the_first_delta_only_makes_two_records",
     ' and chunk.get("name") == first.get("name")', ""),
    ("log.packed", "log_packed", "test_near_misses_stay_apart", 'chunk["id"] == first["id"] and ', ""),
    ("log.packed", "log_packed", "test_near_misses_stay_apart", ' or chunk["index"] != first["index"]', ""),
    ("log.packed", "log_packed", "test_near_misses_stay_apart", 'chunk["type"] != first["type"] or ', ""),
    ("log.packed", "log_packed", "test_near_misses_stay_apart", "return own == keys or ", "return own >= keys or "),
    ("log.packed", "log_packed", "test_a_missing_seq_or_another_step_ends_a_run",
     ' or event["seq"] != first["seq"] + offset', ""),
    ("log.packed", "log_packed", "test_a_missing_seq_or_another_step_ends_a_run",
     'and data["step"] == head["step"]', ""),
    ("log.packed", "log_packed", "test_the_stored_form", "if end - at >= 2", "if end - at >= 1"),
    ("log.packed", "log_packed", "test_the_stored_form", "left >= right for", "False for"),
    ("log.packed", "log_packed", "test_malformed_sources_say_why", "if last >= seq:", "if last > seq:"),
    ("log.packed", "log_packed", "test_malformed_sources_say_why", "if len(set(seqs)) != len(seqs):", "if False:"),
    ("log.repair", "log_repair", "test_the_raw_crash_gets_what_its_repair_wrote",
     "if called_at is not None:", "if False:"),
    ("log.repair", "log_repair", "test_the_raw_crash_gets_what_its_repair_wrote",
     "seq if other == call_id else at", "at"),
    ("log.repair", "log_repair", "test_what_is_closed_at_each_cut", "if work.turn is None:", "if work.step is None:"),
    ("log.repair", "log_repair", "test_pending_calls_keep_the_models_order",
     "work._replace(turn=None, step=None, pending=())", "work._replace(turn=None, step=None)"),
    ("log.repair", "log_repair", "test_a_fork_inside_an_open_turn",
     "length=work.length + 1), \"forked\"", "length=work.length), \"forked\""),
    ("log.envelope", "log_shapes", "test_envelope_faults", "if key not in ENVELOPE_KEYS:", "if False:"),
    ("log.envelope", "log_shapes", "test_envelope_faults",
     'row["ignorable"] is not True or known', 'row["ignorable"] is not True'),
    ("log.common", "log_shapes", "test_every_fault_is_placed_and_attributed", "if value is None:", "if False:"),
    ("log.problems", "log_shapes", "test_every_fault_is_placed_and_attributed",
     "if fresh and isinstance(here, Mapping)", "if isinstance(here, Mapping)"),
    ("log.problems", "log_shapes", "test_every_fault_is_placed_and_attributed",
     "any(here.get(tag) == part for tag in _TAGS)", "False"),
    ("log.v4", "log_shapes", "test_every_fault_is_placed_and_attributed",
     "if adds != (self.header_seq is not None):", "if False:"),
    ("log.v4", "log_shapes", "test_every_fault_is_placed_and_attributed",
     "if self.tool_call_id != self.source.call_id:", "if False:"),
    ("log.v0", "log_shapes", "test_broken_rows_are_attributed_to_their_rules",
     "if self.content[0].tool_call_id != self.source.call_id:", "if False:"),
    ("log.v0", "log_shapes", "test_broken_rows_are_attributed_to_their_rules",
     'and row.get("ignorable") is not True', "and False"),
    ("log.migrate", "log_migrate", "test_every_migrated_row_is_legal",
     'if "surfaceOp" in event and self.head is None:', "if False:"),
    ("log.migrate", "log_migrate", "test_every_migrated_row_is_legal",
     "        self.close_turn()\n\n    def add", "\n    def add"),
    ("log.migrate", "log_migrate", "test_every_migrated_row_is_legal",
     'return {**data, "message": tool_message(data["message"])}', "return data"),
    ("log.migrate", "log_migrate", "test_the_requests_are_the_same_with_the_prompt_as_first_message",
     "moved = prompt != self.prompt", "moved = False"),
    ("log.migrate", "log_migrate", "test_the_requests_are_the_same_with_the_prompt_as_first_message",
     "kind = PRODUCERS.get(name, ", "kind = ("),
    ("log.migrate", "log_migrate", "test_an_old_restart_without_repair_is_closed_where_it_happened",
     "if event_type in _CLOSES_ATTEMPT:", "if False:"),
    ("log.migrate", "log_migrate", "test_a_failed_attempt_stands_before_the_compaction_it_caused",
     'chunk["reason"]["kind"] in ("error", "aborted")', "False"),
    ("log.migrate", "log_migrate", "test_every_migrated_row_is_legal",
     'self.seqs[operation["start"]], self.seqs[operation["end"]]', 'operation["start"], operation["end"]'),
    ("log.migrate", "log_migrate", "test_every_migrated_row_is_legal",
     "self.seqs[seq] for seq in event", "seq for seq in event"),
    ("log.migrate", "log_migrate", "test_the_reason_of_a_header_whose_prompt_moved_out",
     "self.header is not None and same_header(self.header, header)", "False"),
    ("log.migrate", "log_migrate", "test_an_old_restart_without_repair_is_closed_where_it_happened",
     'if event_type in ("turn/start", "session/end-seed"):', "if False:"),
    ("log.migrate", "log_migrate", "test_a_fork_child_keeps_its_cut", "if seq == self.inherited", "if False"),
]  # fmt: skip


def functions(holder: Any, module: str, prefix: str = "") -> Iterator[tuple[str, FunctionType]]:
    """The functions and methods that a module defines, by qualified name."""
    for name, item in list(vars(holder).items()):
        raw = item.__func__ if isinstance(item, (classmethod, staticmethod)) else item
        raw = raw.fget if isinstance(raw, property) else raw
        raw = getattr(raw, "wrapped", raw)  # a pydantic decorator holds the function it wraps
        raw = getattr(raw, "__func__", raw)
        if isinstance(raw, FunctionType) and raw.__module__ == module:
            yield prefix + name, raw
        elif inspect.isclass(raw) and raw.__module__ == module and not prefix:
            yield from functions(raw, module, f"{name}.")


def code_of(source: str, name: str) -> dict[str, Any]:
    """Every function's code object in a source text, by qualified name, without running the source."""
    found: dict[str, Any] = {}

    def visit(code: Any) -> None:
        for inner in code.co_consts:
            if hasattr(inner, "co_qualname"):
                found[inner.co_qualname] = inner
                visit(inner)

    visit(compile(source, name, "exec"))
    return found


@contextmanager
def mutated(module: ModuleType, real: str, mutant: str) -> Iterator[None]:
    """The module with one text replaced by another, in every place where its functions are used."""
    source = inspect.getsource(module)
    assert real in source, f"{module.__name__} has no {real!r}: the mutant is out of date"
    codes = code_of(source.replace(real, mutant), module.__name__)
    before = code_of(source, module.__name__)
    changed = [
        (function, function.__code__, codes[name])
        for name, function in functions(module, module.__name__)
        if name in codes and shape(codes[name]) != shape(before[name])
    ]
    assert changed, f"the mutant of {real!r} changes no function"
    try:
        for function, _, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code, _ in changed:
            function.__code__ = code


def shape(code: Any) -> Any:
    """What a code object does, without the line numbers."""
    inner = tuple(shape(item) if hasattr(item, "co_code") else repr(item) for item in code.co_consts)
    return code.co_code, code.co_names, inner


@cache
def test_module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mutated_{name}", HERE / f"test_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for item in vars(module).values():
        if hasattr(item, "hypothesis"):  # the first counterexample is enough, and it must not depend on luck
            settings(phases=[Phase.generate], database=None, derandomize=True, deadline=None)(item)
    return module


test_module.__test__ = False  # type: ignore[attr-defined]


def passes(test: Callable[..., None]) -> bool:
    """Run a test over all its parameters; whatever it raises is a failure."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    cases: list[Any] = [()]
    if marks:
        single = isinstance(marks[0].args[0], str)
        cases = [(case,) if single else case for case in marks[0].args[1]]
    try:
        for case in cases:
            test(*case)
    except (Exception, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize(
    ("module", "tests", "test", "real", "mutant"),
    MUTANTS,
    ids=[f"{at}-{row[0]}-{row[2]}" for at, row in enumerate(MUTANTS)],
)
def test_the_named_test_kills_the_mutant(module: str, tests: str, test: str, real: str, mutant: str) -> None:
    check = getattr(test_module(tests), test)
    with mutated(importlib.import_module(f"loopspec.{module}"), real, mutant):
        assert not passes(check), f"{test} does not notice: {real!r} -> {mutant!r}"


@pytest.mark.parametrize(("tests", "test"), sorted({(row[1], row[2]) for row in MUTANTS}))
def test_the_named_tests_pass_without_a_mutant(tests: str, test: str) -> None:
    assert passes(getattr(test_module(tests), test))
