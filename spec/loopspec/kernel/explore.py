"""Exhaustive breadth-first search with an exact visited set.

Breadth first, so that the first run found to any state is a shortest one: every counterexample and every
witness below is as short as any. Exact, so that PASS has no collision argument attached: states are
compared, not their hashes.

The search keeps one int per state for its parent and one for the label of the move from there, in arrays; a
run is only put together when somebody wants to see it. It expands states in order of discovery, so the list
of states is the queue as well.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from loopspec.kernel.claims import (
    Invariant,
    Path,
    Sometimes,
    SometimesStep,
    Step,
    Verdict,
    Violation,
    reason_of,
    values_of,
)
from loopspec.kernel.graph import Graph
from loopspec.kernel.report import Exploration, Progress, Reached, path_to
from loopspec.kernel.system import Label, N, System

DEADLOCK = "no deadlock"
"""The name under which a stuck state is reported."""

DEADLOCK_SENTENCE = "Every state has a move, or is one in which the system may stop."


class ExplorationError(Exception):
    """The system or a predicate raised. The text tells the run that leads there; the cause is attached."""

    def __init__(self, text: str, path: Path[object]) -> None:
        """Keep the run to the state that was being worked on as `path`."""
        super().__init__(text)
        self.path = path


def explore(
    system: System[N],
    *,
    invariants: Sequence[Invariant[N]] = (),
    steps: Sequence[Step[N]] = (),
    sometimes: Sequence[Sometimes[N] | SometimesStep[N]] = (),
    is_final: Callable[[N], bool] | None = None,
    bound: Mapping[str, object] | None = None,
    max_states: int | None = None,
    max_depth: int | None = None,
    keep_edges: bool = False,
    stop_at_first: bool = False,
    progress: Callable[[Progress], bool | None] | None = None,
    progress_every: int = 50_000,
    values: Callable[[N], Mapping[str, object]] = values_of,
) -> Exploration[N]:
    """Visit every reachable state of `system` and check every claim.

    * `is_final(node)` tells in which states a run may stop. A state without moves that is not final is a
      deadlock. Without `is_final` no state may stop; pass `lambda node: True` when stopping is always fine.
    * `bound` is copied into the result, to say next to the verdict what it is worth.
    * `max_states` ends the search when one more state would be needed. `max_depth` leaves out all states
      further away than that many moves, and the moves to them. Either makes the result incomplete, but only
      when something was in fact left out.
    * `keep_edges` adds the labelled graph to the result.
    * `stop_at_first` ends the search at the first violation. Otherwise it goes on, and reports the first (and
      therefore a shortest) violation of each claim.
    * `progress` is called after every `progress_every` expanded states; the search ends (incomplete) when it
      answers False.
    * `values` names the fields of a state for the violation reports.

    Raises ValueError when two claims share a name or the system has no first state, and ExplorationError
    when the system or a predicate raises.
    """
    search = _Search(system, tuple(invariants), tuple(steps), tuple(sometimes), is_final, keep_edges, stop_at_first)
    _refuse_doubled_names([*invariants, *steps, *sometimes])
    try:
        why_incomplete = search.run(max_states, max_depth, progress, progress_every)
    except Exception as error:
        path = search.path_to(search.current) if search.states else None
        if path is None:
            raise
        raise ExplorationError(
            f"{type(error).__name__} after {len(path)} moves: {error}\nmoves: {list(path.labels)}\nstate: {path.end!r}",
            Path(path.start, path.steps),
        ) from error
    return search.result(dict(bound or {}), why_incomplete, values)


def _refuse_doubled_names(claims: Sequence[Invariant[N] | Step[N] | Sometimes[N] | SometimesStep[N]]) -> None:
    seen = {DEADLOCK}
    for claim in claims:
        if claim.name in seen:
            raise ValueError(f"Two claims are called {claim.name!r}; give each its own name.")
        seen.add(claim.name)


class _Search(Generic[N]):
    """The working memory of one search. It never leaves this module."""

    def __init__(
        self,
        system: System[N],
        invariants: tuple[Invariant[N], ...],
        steps: tuple[Step[N], ...],
        sometimes: tuple[Sometimes[N] | SometimesStep[N], ...],
        is_final: Callable[[N], bool] | None,
        keep_edges: bool,
        stop_at_first: bool,
    ) -> None:
        self.system = system
        self.all_claims = (invariants, steps, sometimes)
        # Claims leave these lists when they are decided: the first violation or witness is a shortest one.
        self.invariants = list(invariants)
        self.steps = list(steps)
        self.sometimes = [claim for claim in sometimes if isinstance(claim, Sometimes)]
        self.sometimes_steps = [claim for claim in sometimes if isinstance(claim, SometimesStep)]
        self.is_final = is_final
        self.keep_edges = keep_edges
        self.stop_at_first = stop_at_first

        self.index: dict[N, int] = {}
        self.states: list[N] = []
        self.parents = array("i")
        self.parent_labels = array("i")
        self.labels: dict[Label, int] = {}
        self.first = array("q", [0])
        self.edge_labels = array("i")
        self.edge_targets = array("i")

        self.current = 0
        self.initial_count = 0
        self.expanded = 0
        self.transitions = 0
        self.deadlocks: list[int] = []
        # (kind, claim name, sentence, reason, index of the source, move that follows it or None)
        self.broken: list[tuple[str, str, str, str | None, int, tuple[Label, N] | None]] = []
        self.witnesses: dict[str, tuple[int, tuple[Label, N] | None]] = {}

    # -- the search itself

    def run(
        self,
        max_states: int | None,
        max_depth: int | None,
        progress: Callable[[Progress], bool | None] | None,
        progress_every: int,
    ) -> str | None:
        """Search; return why the search is incomplete, or None."""
        states, index, labels = self.states, self.index, self.labels
        limit = -1 if max_states is None else max_states
        too_many = f"more than {max_states} states (max_states)"

        for node in self.system.initial():
            if node in index:
                continue
            if len(states) == limit:
                return too_many
            self.current = index[node] = len(states)
            states.append(node)
            self.parents.append(-1)
            self.parent_labels.append(-1)
            self.initial_count += 1
            self.judge_state(self.current, node)
        if not states:
            raise ValueError("The system has no first state, so there is nothing to explore.")

        moves, keep_edges = self.system.moves, self.keep_edges
        add_state, add_parent, add_label = states.append, self.parents.append, self.parent_labels.append
        add_edge_label, add_edge_target = self.edge_labels.append, self.edge_targets.append
        find, name_of = index.setdefault, labels.setdefault
        depth, level_end, cut = 0, len(states), False
        current = 0
        while current < len(states):
            if self.stop_at_first and self.broken:
                return "stopped at the first violation (stop_at_first)"
            if current == level_end:
                depth, level_end = depth + 1, len(states)
            self.current = current
            node, count = states[current], len(states)
            followed, stuck = 0, True
            watching = bool(self.steps or self.sometimes_steps)
            for label, target in moves(node):
                stuck = False
                # One look-up finds the state or gives it the next number: hashing is the cost that counts
                # here.
                found = find(target, count)
                if found == count:
                    if depth == max_depth:
                        del index[target]
                        cut = True
                        continue
                    if count == limit:
                        del index[target]
                        return too_many
                    add_state(target)
                    add_parent(current)
                    add_label(name_of(label, len(labels)))
                    count += 1
                    self.judge_state(found, target)
                followed += 1
                if watching:
                    self.judge_step(current, node, label, target)
                if keep_edges:
                    add_edge_label(name_of(label, len(labels)))
                    add_edge_target(found)
            self.transitions += followed
            if stuck:
                self.judge_stop(current, node)
            if keep_edges:
                self.first.append(len(self.edge_targets))
            current += 1
            self.expanded = current
            if progress is not None and current % progress_every == 0:
                answer = progress(Progress(len(states), current, self.transitions, depth))
                if answer is False:
                    return "stopped by the caller (progress)"
        if self.stop_at_first and self.broken:
            return "stopped at the first violation (stop_at_first)"
        return f"states more than {max_depth} moves away were left out (max_depth)" if cut else None

    # -- claims

    def judge_state(self, position: int, node: N) -> None:
        """Check the claims about states, once per state, when it is found."""
        for invariant in self.invariants:
            answer = invariant.predicate(node)
            if answer is not True:
                reason = reason_of(invariant.name, answer)
                self.broken.append(("invariant", invariant.name, invariant.sentence, reason, position, None))
                self.invariants = [other for other in self.invariants if other is not invariant]
        for claim in self.sometimes:
            if claim.predicate(node):
                self.witnesses[claim.name] = (position, None)
                self.sometimes = [other for other in self.sometimes if other is not claim]

    def judge_step(self, position: int, node: N, label: Label, target: N) -> None:
        """Check the claims about moves, for every move, whether its target is new or not."""
        for step in self.steps:
            answer = step.predicate(node, label, target)
            if answer is not True:
                reason = reason_of(step.name, answer)
                self.broken.append(("step", step.name, step.sentence, reason, position, (label, target)))
                self.steps = [other for other in self.steps if other is not step]
        for claim in self.sometimes_steps:
            if claim.predicate(node, label, target):
                self.witnesses[claim.name] = (position, (label, target))
                self.sometimes_steps = [other for other in self.sometimes_steps if other is not claim]

    def judge_stop(self, position: int, node: N) -> None:
        """Judge a state without moves."""
        if self.is_final is not None and self.is_final(node):
            return
        if not self.deadlocks:
            self.broken.append(("deadlock", DEADLOCK, DEADLOCK_SENTENCE, None, position, None))
        self.deadlocks.append(position)

    # -- the result

    def path_to(self, position: int, move: tuple[Label, N] | None = None) -> Path[N]:
        """Return a shortest run to a state, with one more move if there is one."""
        path = path_to(position, self.states, self.parents, self.parent_labels, tuple(self.labels))
        return path if move is None else path.then(*move)

    def result(
        self,
        bound: Mapping[str, object],
        why_incomplete: str | None,
        values: Callable[[N], Mapping[str, object]],
    ) -> Exploration[N]:
        """Put the result together; the working memory is not used afterwards."""
        invariants, steps, sometimes = self.all_claims
        violations = []
        for kind, name, sentence, reason, position, move in self.broken:
            path = self.path_to(position, move)
            violations.append(Violation(kind, name, sentence, reason, path, values(path.end)))
        unreached = Verdict.FAIL if why_incomplete is None else Verdict.UNDETERMINED
        table = []
        for claim in sometimes:
            witness = self.witnesses.get(claim.name)
            verdict = unreached if witness is None else Verdict.PASS
            run = None if witness is None else self.path_to(*witness)
            table.append(Reached(claim.name, claim.sentence, verdict, run))
        states, labels = tuple(self.states), tuple(self.labels)
        return Exploration(
            bound=bound,
            why_incomplete=why_incomplete,
            states=states,
            initial_count=self.initial_count,
            parents=self.parents,
            parent_labels=self.parent_labels,
            labels=labels,
            expanded=self.expanded,
            transitions=self.transitions,
            # States come in order of distance, so the last one is as far away as any.
            depth=len(self.path_to(len(states) - 1)) if states else 0,
            deadlocks=tuple(self.deadlocks),
            violations=tuple(violations),
            sometimes=tuple(table),
            checked=(*(claim.name for claim in invariants), *(claim.name for claim in steps), DEADLOCK),
            graph=self.graph(states, labels, why_incomplete) if self.keep_edges else None,
        )

    def graph(self, states: Sequence[N], labels: Sequence[Label], why_incomplete: str | None) -> Graph[N]:
        """Return the graph; states that were not expanded (fully) have the moves that were followed."""
        self.first.extend([len(self.edge_targets)] * (len(states) + 1 - len(self.first)))
        return Graph(
            states=states,
            initial=range(self.initial_count),
            labels=labels,
            first=self.first,
            edge_labels=self.edge_labels,
            edge_targets=self.edge_targets,
            complete=why_incomplete is None,
        )
