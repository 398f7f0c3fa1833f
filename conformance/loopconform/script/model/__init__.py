"""What a conversation script may hold, as pydantic models; `loopspec run --schema` prints their JSON Schema.

Docstrings and descriptions here are the manual: they end up in the schema, and editors show them.
"""

from loopconform.script.model.exchange import Answer, Call, Failure, Gate, Message, Model, Reasoning, Usage
from loopconform.script.model.listeners import (
    Listener,
    Listeners,
    Override,
    PreStep,
    RequestListener,
    RetryListener,
    StoppingListener,
)
from loopconform.script.model.mounted import (
    AnsweredSubagents,
    Compaction,
    Files,
    PermissionRule,
    Permissions,
    Reply,
    Retry,
    Subagents,
    Tool,
    ToolError,
)
from loopconform.script.model.script import Script
from loopconform.script.model.steps import Cancel, Maintenance, Reaction, Replace, Row, Splice, Step

__all__ = [
    "Answer",
    "AnsweredSubagents",
    "Call",
    "Cancel",
    "Compaction",
    "Failure",
    "Files",
    "Gate",
    "Listener",
    "Listeners",
    "Maintenance",
    "Message",
    "Model",
    "Override",
    "PermissionRule",
    "Permissions",
    "PreStep",
    "Reaction",
    "Reasoning",
    "Replace",
    "Reply",
    "RequestListener",
    "Retry",
    "RetryListener",
    "Row",
    "Script",
    "Splice",
    "Step",
    "StoppingListener",
    "Subagents",
    "Tool",
    "ToolError",
    "Usage",
]
