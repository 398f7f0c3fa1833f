"""Payloads of the known log-only types that the loop itself neither writes nor reads (session-log 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, RootModel, model_validator

from loopspec.log.common import Anything, Count, Items, Maybe, Number, Opaque, Positive, Shape, Text
from loopspec.log.problems import fault

# -- approvals, commands, policies ---------------------------------------------------------------------------


class AgentPreset(Shape):
    agent_preset: str


class ApprovalAsked(Shape):
    id: Text
    tool_name: str
    call_id: Maybe[str] = None
    reason: Maybe[str] = None


class ApprovalDecided(Shape):
    id: Text
    outcome: Literal["allowed-once", "rejected", "cancelled", "unavailable"]


class ApprovalPolicy(Shape):
    policy: Literal["ask", "never"]
    source: Maybe[Literal["delegation"]] = None


class CommandRun(Shape):
    command_id: Text
    name: str
    args: Maybe[Opaque] = None
    source: Opaque


class CommandDone(Shape):
    command_id: Text
    kind: Literal["success", "error"]
    text: Maybe[str] = None
    source_event_seq: Maybe[Count] = None


class PermissionPreset(Shape):
    preset: str


class PlanMode(Shape):
    active: bool


class SandboxMode(Shape):
    mode: Literal["read-only", "workspace-write", "danger-full-access"]
    source: Maybe[str] = None


# -- feedback ------------------------------------------------------------------------------------------------


class FeedbackText(Shape):
    text: str


class FeedbackRecord(Shape):
    text: Maybe[str] = None
    category: Maybe[str] = None


class FeedbackItem(Shape):
    message_id: Text
    rating: Literal["positive", "negative"]
    version: Opaque
    created_at: Count
    updated_at: Count
    note: Maybe[str] = None
    category: Maybe[str] = None


class FeedbackPut(Shape):
    session_id: Text
    item: FeedbackItem


class FeedbackDelete(Shape):
    session_id: Text
    message_id: Text


# -- goals, hooks, schedules ---------------------------------------------------------------------------------


class GoalSet(Shape):
    kind: Literal["goal/change"]
    version: Literal[1]
    operation: Literal["create", "edit", "pause", "resume", "complete", "block"]
    goal: Opaque
    rounds_started: Count
    created_at: Count
    updated_at: Count


class GoalCleared(Shape):
    kind: Literal["goal/change"]
    version: Literal[1]
    operation: Literal["clear"]
    cleared: Opaque
    cleared_at: Count


class GoalChange(RootModel[Annotated[GoalSet | GoalCleared, Field(discriminator="operation")]]):
    pass


class HookInvoked(Shape):
    turn: Positive
    point: str
    dialect: Literal["claude-code", "codex"]
    matcher: Maybe[str] = None
    handler_id: str


class HookResult(Shape):
    turn: Positive
    point: str
    handler_id: str
    decision: str
    exit_code: Maybe[int] = None
    stderr_summary: Maybe[str] = None
    duration_ms: Number


class ScheduleCreate(Shape):
    version: Literal[1]
    operation: Literal["create"]
    schedule: Opaque


class ScheduleDelete(Shape):
    version: Literal[1]
    operation: Literal["delete"]
    id: Text


class ScheduleDispatch(Shape):
    version: Literal[1]
    operation: Literal["dispatch"]
    id: Text
    accepted_at: Maybe[Opaque] = None


class ScheduleChange(
    RootModel[Annotated[ScheduleCreate | ScheduleDelete | ScheduleDispatch, Field(discriminator="operation")]]
):
    pass


# -- titles, models, delivery --------------------------------------------------------------------------------


class FixedTitleSource(Shape):
    kind: Literal["fallback", "user"]


class ProviderTitleSource(Shape):
    kind: Literal["provider"]
    provider: str
    model: Maybe[Opaque] = None


class SessionTitle(Shape):
    title: str
    message_seqs: Items[Count]
    source: Annotated[FixedTitleSource | ProviderTitleSource, Field(discriminator="kind")]


class TitleRequest(Shape):
    title_provider: str
    message_seqs: Items[Count]
    route: Mapping[str, Any]
    system: str
    messages: Items[Opaque]
    max_tokens: Positive


class ModelSelection(Shape):
    provider: Text
    model: Text
    reasoning_effort: Maybe[Text] = None


class DeliveryAccepted(Shape):
    session_id: Text
    through_seq: Count
    session_format_version: Maybe[Count] = None


class SearchRequest(Shape):
    endpoint: str
    api_version: str
    body: Opaque


# -- subagents, teams, workflows, lists ----------------------------------------------------------------------


class SubagentCatalog(Shape):
    version: Literal[0, 1]
    child_id: Text
    child_created_at: Count
    mode: Literal["continuable", "one-shot", "unknown"]
    label: Maybe[str] = None

    @model_validator(mode="after")
    def _fits_mode(self) -> SubagentCatalog:
        if self.mode == "unknown" and self.version != 1:
            raise fault("S-LNT-21", "mode unknown exists in version 1 only")
        if self.mode == "continuable" and self.label is None:
            raise fault("S-LNT-21", "a continuable child needs a label")
        return self


class SubagentDescriptor(Shape):
    version: Count
    mode: str
    provider: str
    label: Maybe[str] = None
    agent_provider: Maybe[str] = None
    agent_model: Maybe[str] = None
    persona: Maybe[Opaque] = None
    tool_filter: Maybe[Opaque] = None


class AllowedModel(Shape):
    provider: Text
    model: Text


class ModelPolicy(Shape):
    allowed_models: Items[AllowedModel]


class TeamMember(Shape):
    version: Literal[1]
    team_id: Text
    member: Opaque


class TeamTask(Shape):
    version: Literal[1]
    team_id: Text
    task: Opaque


class TeamMessageQueued(Shape):
    version: Literal[1]
    team_id: Text
    message: Opaque


class TeamMessageDelivered(Shape):
    version: Literal[1]
    team_id: Text
    message_id: Text
    target_id: Text


class Todo(Shape):
    content: str
    status: Literal["pending", "in_progress", "completed"]


class TodoWrite(Shape):
    todos: Items[Todo]


class WorkflowRunStart(Shape):
    run_id: Text
    name: str


class WorkflowRunEnd(Shape):
    run_id: Text
    stop_reason: str


class WorkflowAgentStart(Shape):
    run_id: Text
    seq: Count
    label: str
    phase: Maybe[str] = None
    child_id: Text


class WorkflowAgentEnd(Shape):
    run_id: Text
    seq: Count
    outcome: str


Models: TypeAlias = Mapping[str, type[BaseModel]]

BOTH: Models = {
    "agent-preset/selected": AgentPreset,
    "approval/asked": ApprovalAsked,
    "approval/decided": ApprovalDecided,
    "approval/policy": ApprovalPolicy,
    "command/run": CommandRun,
    "command/done": CommandDone,
    "goal/change": GoalChange,
    "hook/invoked": HookInvoked,
    "hook/result": HookResult,
    "permission/preset": PermissionPreset,
    "plan/mode": PlanMode,
    "sandbox/mode": SandboxMode,
    "schedule/change": ScheduleChange,
    "session/title": SessionTitle,
    "session/title-llm-request": TitleRequest,
    "subagent/descriptor": SubagentDescriptor,
    "team/member": TeamMember,
    "team/task": TeamTask,
    "team/message/queued": TeamMessageQueued,
    "team/message/delivered": TeamMessageDelivered,
    "todo/write": TodoWrite,
    "tool-workflow/run-start": WorkflowRunStart,
    "tool-workflow/run-end": WorkflowRunEnd,
    "tool-workflow/agent-start": WorkflowAgentStart,
    "tool-workflow/agent-end": WorkflowAgentEnd,
    "web/deepseek-search-llm-request": SearchRequest,
}
"""Payloads that are the same in both formats."""

V0_ONLY: Models = {"feedback/record": FeedbackText}

V4_ONLY: Models = {
    "feedback/record": FeedbackRecord,
    "deliverables/presented": Anything,
    "feedback/message-put": FeedbackPut,
    "feedback/message-delete": FeedbackDelete,
    "model/selection": ModelSelection,
    "session-log-deepseek/delivery-accepted": DeliveryAccepted,
    "subagent/catalog": SubagentCatalog,
    "subagent/model-selection-policy": ModelPolicy,
    "workspace/changes": Anything,
}
