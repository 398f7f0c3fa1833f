"""What a composition may hold: several agents as a configuration asks for them, plugins, and steps that name an agent.

A composition is a script with `agents:` at its top. The agents are read by the rules of the harness
(`loopharness.creation.configured`), everything else as in other scripts. Nothing starts before all of it is in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag, ValidationError

from loopconform.script.load import BadScript, Fault, Loaded, check_late, near, refused, shown_path
from loopconform.script.model import (
    Compaction,
    Files,
    Listeners,
    Model,
    Permissions,
    Reaction,
    Retry,
    Script,
    Step,
    Subagents,
)
from loopconform.script.model.base import Strict, Words, text_as
from loopconform.script.model.exchange import AnyAnswer
from loopconform.script.model.mounted import AnyTool
from loopconform.script.play import CHILDREN
from loopconform.script.text import PathKey, Read
from loopharness.creation import configured
from loopharness.creation.configured import ConfigError
from loopharness.model.deepseek import DeepSeekSettings
from loopharness.model.deepseek.settings import API_KEY, BASE_URL, PROVIDER
from loopspec.tape import config as tape

__all__ = ["CHILDREN", "Composed", "Composition", "composed", "is_composition"]


class AgentEntry(Strict):
    """One agent to start, with the keys of a configuration."""

    id: Words = Field(description="A label: steps name it with `to`. It is not the id of the session.")
    sessionId: Words | None = Field(None, description="Exactly this session: taken up if it is stored, else created.")
    resumeSessionId: str | None = Field(None, description="This stored session, or the start fails.")
    provider: Words | None = Field(None, description="Left out, that of the scripted model.")
    model: Words | None = Field(None, description="Left out, that of the scripted model.")
    maxTokens: Annotated[int, Field(gt=0, lt=2**53)] | None = None
    cwd: str | None = Field(None, description="An absolute path; for a fresh session only.")


class Plugins(Strict):
    """What is mounted beside the loop."""

    slice: dict[str, JsonValue] | None = Field(None, description="Finished turns become tape entries: its settings.")
    retry: Retry | None = None
    permissions: Permissions | None = None
    compaction: Compaction | None = None
    workspace: Annotated[Files, text_as("files")] | None = Field(None, description="File tools; a directory will do.")
    subagent: Subagents | None = None


class DeepSeek(Strict):
    """A real model server. The key comes from the environment; a server on this machine needs none."""

    base_url: Words | None = Field(None, description="Left out, that of the environment, else the public API.")
    effort: Words = "high"

    def settings(self) -> DeepSeekSettings:
        """The settings of the adapter. Raises `ValueError` for what cannot be, and when there is no key."""
        given: dict[str, Any] = {"effort": self.effort}
        if self.base_url is not None:
            given["base_url"] = self.base_url
        settings = DeepSeekSettings(**given)
        if settings.api_key() is not None:
            return settings
        if not settings.is_local:
            raise ValueError(
                f"{API_KEY} is not set; set it, or name a server on this machine as base_url or {BASE_URL}"
            )
        return DeepSeekSettings(**given, api_key=lambda: "local")


class AgentStep(Step):
    """One thing to do, by one agent: `to` is its label."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 2})
    BESIDE: ClassVar[tuple[str, ...]] = ("to",)

    to: Words | None = Field(None, description="The label of an agent; needed where there are several.")


class AgentReaction(Reaction):
    """Steps inside the window of a record or a live event of some agent; without `to` they are for that agent."""

    of: Words | None = Field(None, description="The label of the agent that it is about; left out, any of them.")
    do: list[AgentStep] = Field(min_length=1)  # type: ignore[assignment]


Answers = Annotated[
    Annotated[list[AnyAnswer], Tag("call by call")] | Annotated[dict[str, list[AnyAnswer]], Tag("by agent")],
    Discriminator(lambda value: "by agent" if isinstance(value, dict) else "call by call"),
]


class Composition(Strict):
    """Configured agents and plugins, what the model will answer, and what happens, step by step."""

    about: str = Field("", description="What this composition shows.")
    profile: Literal["seed", "dsh-0.1", "dsh-0.1.7"] = Field("seed", description="Which law the agents follow.")
    session_format: Literal[0, 4] = Field(4, description="Format of new session files.")
    identity: str = Field("", description="First part of the system prompt.")
    persona: str = Field("", description="Second part of the system prompt.")
    clock: int | None = Field(None, ge=0, lt=2**52, description="Unix milliseconds at the start; see scripts.")
    time_limit: float = Field(10, gt=0, le=3600, description="Seconds of real time after which the run is given up.")
    maxParallelToolCalls: int | None = Field(None, ge=1, description="How many concurrent tools may run at once.")
    agents: list[AgentEntry] = Field(min_length=1)
    sessions: Words | None = Field(
        None, description="Where sessions are stored and looked for, a directory relative to this file."
    )
    plugins: Plugins = Field(default_factory=Plugins)
    model: Model = Field(default_factory=Model, description="The scripted model.")
    deepseek: DeepSeek | None = Field(None, description=f"A real model server, as the provider {PROVIDER}.")
    answers: Answers = Field(
        default_factory=list, description="What the scripted model says: call by call, or by the label of the agent."
    )
    tools: list[AnyTool] = Field(default_factory=list)
    listeners: Listeners = Field(default_factory=Listeners)
    when: list[AgentReaction] = Field(default_factory=list)
    steps: list[AgentStep] = Field(min_length=1, description="What happens. A last `wait: idle` is understood.")

    def configuration(self) -> dict[str, Any]:
        """The part that the harness reads: agents, with the scripted model where none is named."""
        default = {"provider": self.model.provider, "model": self.model.name}
        agents = [{**default, **entry.model_dump(exclude_none=True)} for entry in self.agents]
        cap = {} if self.maxParallelToolCalls is None else {"maxParallelToolCalls": self.maxParallelToolCalls}
        return {**cap, "agents": agents}

    def script(self) -> Script:
        """The rest as a script, for what is the same in both."""
        answers = (
            self.answers if isinstance(self.answers, list) else [one for part in self.answers.values() for one in part]
        )
        plugins = self.plugins
        return Script.model_construct(
            **{name: getattr(self, name) for name in SHARED},
            answers=answers,
            tools=[*self.tools, *([] if plugins.workspace is None else [plugins.workspace])],
            permissions=plugins.permissions,
            compaction=plugins.compaction,
            retry=plugins.retry,
            parallel_tools=self.maxParallelToolCalls or 10,
        )


SHARED = (
    "about",
    "profile",
    "session_format",
    "identity",
    "persona",
    "clock",
    "time_limit",
    "model",
    "listeners",
    "when",
    "steps",
)


class Composed(NamedTuple):
    """A composition that is in order, and the script that it holds."""

    composition: Composition
    loaded: Loaded


def is_composition(read: Read) -> bool:
    """Whether the data of a script are those of a composition."""
    return isinstance(read.data, Mapping) and "agents" in read.data


def composed(read: Read, changes: Mapping[str, Any]) -> Composed:
    """Validate a composition as a whole; `changes` replace what it says at its top. Raises `BadScript`."""
    try:
        composition = Composition.model_validate(read.data).model_copy(update=dict(changes))
    except ValidationError as error:
        raise refused(error.errors(include_url=False, include_context=False), read, Composition) from error
    loaded = Loaded(composition.script(), read.lines)
    faults = [Fault(loaded.line(*path), shown_path(path), *said) for path, said in _wrong(composition)]
    if faults:
        raise BadScript(sorted(faults, key=lambda fault: fault.line))
    check_late(loaded)
    return Composed(composition, loaded)


def _wrong(composition: Composition) -> Iterator[tuple[PathKey, tuple[str, str]]]:
    """What does not fit together: the place, the reason, some advice."""
    try:
        configured.read(composition.configuration())
    except ConfigError as error:
        yield ("agents",), (str(error), "")
    try:
        tape.parse(composition.plugins.slice)
    except tape.ConfigError as error:
        yield ("plugins", "slice"), (str(error), "")
    if composition.deepseek is not None:
        try:
            composition.deepseek.settings()
        except ValueError as error:
            yield ("deepseek",), (str(error), "")
    yield from _unknown_providers(composition)
    labels = Counter(entry.id for entry in composition.agents)
    if isinstance(composition.answers, dict):
        for label in composition.answers:
            if label not in labels and label != CHILDREN:
                yield ("answers", label), (f"no agent has the label {label!r}", near(label, [*labels, CHILDREN]))
    for number, reaction in enumerate(composition.when):
        known = [*labels, CHILDREN]
        if reaction.of is not None and reaction.of not in known:
            yield ("when", number, "of"), (f"no agent has the label {reaction.of!r}", near(reaction.of, known))
        for at, step in enumerate(reaction.do):
            yield from _wrong_label(("when", number, "do", at), step, labels)
    for at, step in enumerate(composition.steps):
        path: PathKey = ("steps", at)
        if step.to is None and len(composition.agents) > 1 and not step.wait and step.verb not in ("open", "crash"):
            yield path, (f"{step.verb} does not say which agent", f"Add `to:`, one of {', '.join(labels)}.")
        yield from _wrong_label(path, step, labels)


def _wrong_label(path: PathKey, step: AgentStep, labels: Counter[str]) -> Iterator[tuple[PathKey, tuple[str, str]]]:
    """Whom a step is for, when that is nobody, or several."""
    if step.to is not None and step.to not in labels:
        yield (*path, "to"), (f"no agent has the label {step.to!r}", near(step.to, [*labels]))
    elif step.to is not None and labels[step.to] > 1:
        yield (*path, "to"), (f"{labels[step.to]} agents have the label {step.to!r}", "Give them different ids.")


def _unknown_providers(composition: Composition) -> Iterator[tuple[PathKey, tuple[str, str]]]:
    known = [composition.model.provider, *([] if composition.deepseek is None else [PROVIDER])]
    for at, entry in enumerate(composition.agents):
        if entry.provider is not None and entry.provider not in known:
            advice = "Add `deepseek: {base_url: URL}`." if entry.provider == PROVIDER else near(entry.provider, known)
            yield ("agents", at, "provider"), (f"there is no provider {entry.provider!r} here", advice)
