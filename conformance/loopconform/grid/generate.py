"""All generated cases: stories × places × operations, played on the reference and kept when they mean something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

from loopconform.cli import version
from loopconform.grid import creations, folds, resumes, scenarios, tapes
from loopconform.grid.logs import told
from loopconform.grid.places import places
from loopconform.grid.programs import Place, program
from loopconform.grid.resumes import Told
from loopconform.grid.scenarios import Json, Scenario
from loopconform.grid.spoken import Ear, clauses_of
from loopconform.protocol.case import Area, Case
from loopconform.protocol.parts import Profile
from loopconform.protocol.replies import Raised, Returned
from loopconform.protocol.requests import React
from loopconform.runner.channel import InsideChannel
from loopconform.runner.play import Player

Rules = frozenset[tuple[str, str]]


class Kept(NamedTuple):
    """A case, and the rules that spoke while it was judged."""

    case: Case
    rules: Rules


class Dropped(NamedTuple):
    """A program that is no case, and why."""

    id: str
    reason: str


class Family(NamedTuple):
    """One grid: stories, what may be done in them, and who is tried in pairs.

    The first story is tried at all its places with all operations. The others are tried where the first story has no
    such place, with those operations that are tried in pairs too.
    """

    name: str
    stories: Sequence[Scenario]
    operations: Mapping[str, Json]
    paired: Sequence[str]
    paired_stories: Sequence[str]
    creates: bool
    area: Callable[[Scenario, str], Area]


def _area_of(story: Scenario, operation: str) -> Area:
    return scenarios.AREAS[operation] if story.name == "plain" else story.area


def _area_of_creation(story: Scenario, operation: str) -> Area:
    return "teardown" if operation.startswith(("dispose", "unload")) else story.area


FAMILIES: tuple[Family, ...] = (
    Family(
        "loop", scenarios.STORIES, scenarios.OPERATIONS, scenarios.PAIRED, scenarios.PAIRED_SCENARIOS, False, _area_of
    ),
    Family(
        "life", creations.STORIES, creations.OPERATIONS, creations.PAIRED, ("create", "woken"), True, _area_of_creation
    ),
)


def _resumes(stories: Sequence[Scenario]) -> Family:
    """Resumes, with what may be done while they are made."""
    return Family("taken", stories, resumes.OPERATIONS, resumes.PAIRED, (), True, lambda story, name: "resume")


class Generator:
    """Plays programs on the reference harness, in this process."""

    def __init__(self) -> None:
        self.ear = Ear()
        self.player = Player(lambda: InsideChannel("asyncio", None), 10.0, self.ear.machine)

    def run(self, families: Sequence[Family] = FAMILIES) -> Iterator[Kept | Dropped]:
        """Every case, and every program that is none."""
        seen: set[str] = set()
        try:
            for family in families:
                known: set[Place] = set()
                for story in family.stories:
                    found = list(places(self.player, story, family.creates, _shell))
                    fresh = [place for place in found if place.where != "inside" or place not in known]
                    known.update(found)
                    alone = self._tried(family, story, Place("alone"), ())
                    usual = alone.rules if isinstance(alone, Kept) else frozenset()
                    tried = (
                        self._tried(family, story, place, names, usual)
                        for place in fresh
                        for names in _choices(family, story, place)
                    )
                    for made in chain([alone], tried):
                        text = repr(made.case.program) if isinstance(made, Kept) else made.id
                        if text not in seen:
                            seen.add(text)
                            yield made
        finally:
            self.player.close()

    def everything(self) -> Iterator[Kept | Dropped]:
        """The families, and the stories of stored sessions, whose logs have to be written first."""
        yield from self.run()
        tool = next(story for story in scenarios.STORIES if story.name == "tool")
        events = told(self.player, tool, _shell)
        started = next(at for at, event in enumerate(events) if event["type"] == "tool/call")
        yield from self.run([_resumes(resumes.stories(events[: started + 1]))])
        for one in resumes.programs(self.player, _shell):
            yield self._told(one, "resume")
        for one in chain(tapes.programs(self.player, _shell), folds.programs()):
            yield self._told(one, "tape")

    def _told(self, one: Told, area: Area) -> Kept | Dropped:
        """A program that was written for its clauses: it has to pass under every law that it is for."""
        case = Case(
            id=one.id,
            title=one.title,
            area=area,
            clauses=one.clauses,
            profiles=one.profiles,
            spec=version(),
            program=one.requests,
        )
        self.ear.clear()
        for profile in one.profiles:
            with self.ear.listening():
                result = self.player.play(case, profile)
            if result.verdict != "PASS":
                return Dropped(one.id, f"{result.verdict} under {profile}: {result.reason}")
        return Kept(case, self.ear.rules())

    def rules_of(self, case: Case) -> Rules:
        """The rules that speak while a case of somebody else's is judged under the seed law."""
        self.ear.clear()
        with self.ear.listening():
            self.player.play(case, case.profiles[0])
        return self.ear.rules()

    def _tried(
        self, family: Family, story: Scenario, place: Place, names: tuple[str, ...], usual: Rules = frozenset()
    ) -> Kept | Dropped:
        """One program; its clauses are those of the rules that do not speak in the story alone (`usual`)."""
        id = "/".join([family.name, story.name, place.slug, *(["-then-".join(names)] if names else [])])
        ops = [family.operations[name] for name in names]
        requests = program(story, place, ops, family.creates)
        area = family.area(story, names[-1]) if names else story.area
        about = f"{' then '.join(names)}, {place.words}: {story.title}" if names else story.title
        profiles: tuple[Profile, ...] = ("seed", "dsh-0.1.7") if story.session_format else ("seed", "dsh-0.1")
        case = Case(id=id, title=about, area=area, clauses=(), profiles=profiles, spec=version(), program=requests)
        ended: set[tuple[int, int]] = set()

        def hear(reply: Any) -> None:
            if isinstance(reply, (Returned, Raised)):
                ended.add((reply.id, reply.op))

        self.ear.clear()
        with self.ear.listening():
            result = self.player.play(case, "seed", until=hear)
        if result.verdict != "PASS":
            return Dropped(id, f"{result.verdict}: {result.reason}")
        reacting = [at for at, request in enumerate(requests, 1) if isinstance(request, React)]
        if any((at, op) not in ended for at in reacting for op in range(len(ops))):
            return Dropped(id, "the place does not come, or comes only once")
        rules = self.ear.rules()
        new = rules - usual or frozenset((book, name) for book, name in rules if name in names)
        return Kept(case.model_copy(update={"clauses": clauses_of(new)}), rules)


def _choices(family: Family, story: Scenario, place: Place) -> Iterator[tuple[str, ...]]:
    """The operations to try at a place: each alone, and in some stories two in both orders."""
    first = story is family.stories[0]
    unnamed = NAMELESS.get(place.name, ()) if family.creates else ()
    pairs = story.name in family.paired_stories and (place.where != "inside" or place.name in PAIRED_PLACES)
    alone = product(family.operations if first else family.paired)
    for names in chain(alone, product(family.paired, repeat=2) if pairs else ()):
        if not any(name in unnamed for name in names):
            yield names


NAMELESS = {
    "load": ("dispose", "followup", "append", "cancel", "when-idle"),
    "setup": ("dispose", "followup", "append", "cancel", "when-idle"),
    "session/created": ("dispose",),
    "agent/created": ("dispose",),
    "agent/session-start": ("dispose",),
}
"""What cannot be asked for in a creation: the creator has no handle yet, and during setup not even an agent."""


PAIRED_PLACES = (
    "agent/inbox/inserted",
    "turn/start",
    "step/end",
    "turn/end",
    "agent/status",
    "tool/call",
    "tool/result",
    "agent/created",
)
"""Dispatches inside which two operations are tried, one after the other."""


def _shell(requests: Sequence[Any]) -> Case:
    return Case(id="story", title="a story", area="turn", clauses=(), spec=version(), program=tuple(requests))
