"""An agent with a typed tool, file tools, a helper, permissions and compaction, in one file.

    loopspec mock-model examples/mock/agent.yaml          # prints a URL; no key is needed for it
    python examples/agent.py URL examples/workspace "What was the pressure this morning?"

With the URL https://api.deepseek.com and DEEPSEEK_API_KEY set, it talks to the real model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from loopharness import compaction, permissions, subagent, workspace
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.deepseek import DeepSeekSettings, open_deepseek
from loopharness.permissions import Answer, Question, Rule
from loopharness.tools.registry import define_tool

SAFE = ("mean", "read", "list", "search", "delegate")


def mean(
    numbers: Annotated[list[float], Field(min_length=1)], rounded_to: Literal["nothing", "tenths", "ones"] = "tenths"
) -> float:
    """Work out the mean of some numbers.

    Args:
        numbers: The numbers, at least one.
        rounded_to: How exact the answer shall be.
    """
    value = sum(numbers) / len(numbers)
    return {"nothing": value, "tenths": round(value, 1), "ones": float(round(value))}[rounded_to]


async def ask(question: Question) -> Answer:
    """Ask the person at the keyboard. Without one, nothing is allowed that was not allowed before."""
    if not sys.stdin.isatty():
        return "no"
    line = await anyio.to_thread.run_sync(input, f"May {question.tool} be called with {question.arguments}? [y/N] ")
    return "once" if line.strip().lower().startswith("y") else "no"


def show(event: Mapping[str, Any]) -> None:
    """Print a record of the log, where it has something to tell."""
    data = event["data"]
    if event["type"] == "tool/call":
        print(f"-> {data['name']} {data['arguments']}")
    elif event["type"] == "tool/result":
        print("<-", " ".join(block.get("text", "") for block in data["message"]["content"]))
    elif event["type"] == "turn/end" and data["reason"]["kind"] == "error":
        print("failed:", data["reason"]["error"]["message"])


async def main(url: str, root: str, task: str) -> None:
    """Do one task in one directory, and print the answer."""
    settings = DeepSeekSettings(base_url=url)
    if settings.api_key() is None and settings.is_local:
        settings = DeepSeekSettings(base_url=url, api_key=lambda: "local")
    async with open_deepseek(settings) as model, open_harness(persona="You are a careful assistant.") as harness:
        harness.llm.register_adapter(["deepseek-official"], model)
        harness.tools.register(define_tool(mean, concurrent=True), harness.context)
        workspace.install(harness, root)
        permissions.install(harness, [Rule(name, "allow") for name in SAFE], asker=ask)
        compaction.install(harness)
        subagent.install(harness)
        agent = await harness.create_agent("main", AgentOptions("deepseek-official", "deepseek-v4-flash"))
        harness.on("session/event", lambda session, event: show(event) if session is agent.session else None)
        agent.followup(task)
        await agent.when_idle()
        print(subagent.answer_of(agent.session))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
