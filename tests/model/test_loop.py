"""The adapter inside the loop: what a server says becomes a log that checks clean and can be taken up again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.model.wire import FIELD_CASES, GUARD, Script, Server, payloads, said, settings

from loopconform.check import check_file
from loopharness.agent import Agent, AgentOptions
from loopharness.frozen import thaw
from loopharness.harness import Harness, open_harness
from loopharness.model.deepseek import open_deepseek
from loopharness.store.rows import batch_text, header_text
from loopharness.tools.registry import define_tool

pytestmark = pytest.mark.anyio

PROVIDER = "deepseek-official"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


class Talk:
    """One agent on a mock model, with a tool that counts its runs."""

    def __init__(self, harness: Harness, script: Script) -> None:
        self.harness = harness
        self.script = script
        self.runs: list[str] = []
        self.agent: Agent
        for name in ("read", "write"):
            harness.tools.register(define_tool(name, name, PATH, self._run), harness.context)

    async def _run(self, arguments: Any) -> str:
        self.runs.append(arguments["path"])
        return f"content of {arguments['path']}"

    async def say(self, words: str) -> Mapping[str, Any]:
        """Send a prompt, wait, and answer how its turn ended."""
        self.agent.followup(words)
        await self.agent.when_idle()
        reason: Mapping[str, Any] = thaw(self.records("turn/end")[-1]["reason"])
        return reason

    def records(self, *types: str) -> list[Any]:
        """The data of all records of these types."""
        return [event["data"] for event in self.agent.session.events if event["type"] in types]

    def bodies(self) -> list[Any]:
        """The bodies of all requests."""
        return [entry["body"] for entry in self.script.log()]

    def check(self, folder: Path) -> None:
        """Write the log, check it, and take it up again."""
        session = self.agent.session
        path = folder / f"{session.id}.jsonl"
        path.write_bytes(header_text(session.header) + batch_text(list(session.events), session.header["version"]))
        report = check_file(path)
        assert report.verdict == "clean", [(item.rule, item.line, item.reason) for item in report.findings]


@asynccontextmanager
async def talk(
    script: Script, version: int = 4, stored: tuple[Any, Any] | None = None, **more: Any
) -> AsyncIterator[Talk]:
    """A harness with one agent; `stored` is the header and the events of a log that is taken up."""
    with anyio.fail_after(GUARD):
        async with open_deepseek(settings(script.url, **more)) as adapter, open_harness("seed", version) as harness:
            harness.llm.register_adapter([PROVIDER], adapter)
            talking = Talk(harness, script)
            options = AgentOptions(PROVIDER, "m1")
            if stored is None:
                talking.agent = await harness.create_agent("s", options)
            else:
                talking.agent = await harness.create_agent(options=options, header=stored[0], events=stored[1])
            yield talking


def again(harness: Harness) -> None:
    """Try a failed request again when its policy knows the code."""

    async def recover(payload: Any, following: Any) -> Any:
        known = payload["retryPolicy"]["retryableCodes"]
        return {"kind": "retry"} if payload["failure"]["code"] in known else await following()

    harness.on("agent/request-error", recover)


FORMATS = pytest.mark.parametrize("version", [0, 4])


# -- K30 -------------------------------------------------------------------------------------------------------


@FORMATS
async def test_k30_reasoning_goes_back(version: int, server: Server, tmp_path: Path) -> None:
    expected = json.loads((FIELD_CASES / "K30-expected-second-messages.json").read_text())
    script = server.script(
        {"file": str(FIELD_CASES / "K30-reasoning-then-tool.sse")},
        {"text": "It says so.", "expect": {"messages_file": str(FIELD_CASES / "K30-expected-second-messages.json")}},
        "Yes.",
        "Forked.",
    )
    async with talk(script, version) as first:
        assert await first.say("Read a.txt.") == {"kind": "completed"}
        first.check(tmp_path)
        stored = (first.agent.session.header, tuple(first.agent.session.events))
    async with talk(script, version, stored) as second:
        assert await second.say("Really?") == {"kind": "completed"}
        assert second.bodies()[2]["messages"][:3] == expected
        fork = await second.harness.fork_agent(second.agent.session, options=AgentOptions(PROVIDER, "m1"))
        fork.followup("And here?")
        await fork.when_idle()
        assert second.bodies()[3]["messages"][:3] == expected
        second.check(tmp_path)


async def test_a_mock_that_is_not_told_what_it_expects_says_so(server: Server) -> None:
    """The comparison of K30 can fail: one word more, and the answer is a 400 that names the place."""
    wanted = [{"role": "user", "content": "Read b.txt."}]
    script = server.script({"text": "x", "expect": {"messages": wanted}})
    async with talk(script) as talking:
        reason = await talking.say("Read a.txt.")
    assert reason["error"]["code"] == "INVALID_REQUEST"
    assert 'messages[0].content is "Read a.txt." instead of "Read b.txt."' in reason["error"]["message"]
    assert "mismatch" in script.log()[0]


# -- K34 -------------------------------------------------------------------------------------------------------


@FORMATS
async def test_k34_a_refusal_is_final_and_the_session_goes_on(version: int, server: Server, tmp_path: Path) -> None:
    files = [str(FIELD_CASES / name) for name in ("K34-1-tool-without-reasoning.sse", "K34-2-passback-refused.http")]
    script = server.script(*files, "Without thinking, then.")
    async with talk(script, version) as talking:
        again(talking.harness)
        reason = await talking.say("Read a.txt.")
        message = "The `reasoning_content` in the thinking mode must be passed back to the API."
        assert reason == {"kind": "error", "error": {"message": message, "code": "INVALID_REQUEST", "status": 400}}
        assert len(talking.bodies()) == 2

        async def unthinking(payload: Any, following: Any) -> Any:
            return {**await following(), "reasoningEffort": "off"}

        talking.harness.on("agent/request", unthinking)
        assert await talking.say("Again.") == {"kind": "completed"}
        second, third = talking.bodies()[1:]
        assert second["thinking"] == {"type": "enabled"}
        assert third["thinking"] == {"type": "disabled"}
        assert "reasoning_effort" not in third
        # a call that came without reasoning goes back without it
        assert all("reasoning_content" not in message for message in third["messages"])
        talking.check(tmp_path)


# -- K20 -------------------------------------------------------------------------------------------------------


@FORMATS
async def test_k20_a_retry_does_not_repeat_a_tool(version: int, server: Server, tmp_path: Path) -> None:
    files = [str(FIELD_CASES / f"K20-{name}") for name in ("1-tool-call.sse", "2-server-error.http", "3-final.sse")]
    script = server.script(files[0], files[1], {"file": files[2], "expect": {"same_as": 2}})
    async with talk(script, version) as talking:
        again(talking.harness)
        assert await talking.say("Write a.txt.") == {"kind": "completed"}
        assert talking.runs == ["a.txt"]
        assert len(talking.bodies()) == 3
        assert [len(talking.records(name)) for name in ("tool/call", "tool/result", "step/start")] == [1, 1, 2]
        anchors = talking.records("assistant/message")
        assert [(anchor["turn"], anchor["step"]) for anchor in anchors] == [(1, 1), (1, 2)]
        talking.check(tmp_path)


@FORMATS
async def test_k20_killed_behind_the_result(version: int, server: Server) -> None:
    """The log as it stands while the second request is out; whoever takes it up runs no tool again."""
    script = server.script(str(FIELD_CASES / "K20-1-tool-call.sse"), {"text": "x", "gate": "second"}, "Written.")
    async with talk(script, version) as first:
        first.agent.followup("Write a.txt.")
        await anyio.to_thread.run_sync(script.at_gate, "second")
        stored = (first.agent.session.header, tuple(first.agent.session.events))
        assert first.runs == ["a.txt"]
        first.agent.cancel({"kind": "user"})
        await first.agent.when_idle()
    async with talk(script, version, stored) as second:
        assert await second.say("And?") == {"kind": "completed"}
        assert second.runs == []
        roles = [message["role"] for message in second.bodies()[-1]["messages"]]
        assert roles == ["user", "assistant", "tool", "user"]


# -- what must not enter history -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("K38-eof-in-text.sse", "STREAM_CLOSED"),
        ("K38-eof-after-complete-call.sse", "STREAM_CLOSED"),
        ("K38-eof-after-finish.sse", "STREAM_CLOSED"),
        ("K40-error-after-text.sse", "CONTEXT_WINDOW_EXCEEDED"),
        ("K40-null-choice.sse", "MALFORMED_RESPONSE"),
        ("K37-no-name.sse", "MALFORMED_RESPONSE"),
    ],
)
@FORMATS
async def test_a_failed_attempt_leaves_nothing(
    version: int, file: str, code: str, server: Server, tmp_path: Path
) -> None:
    script = server.script(str(FIELD_CASES / file), "Here I am again.")
    async with talk(script, version) as talking:
        again(talking.harness)
        reason = await talking.say("Go.")
        assert reason["error"]["code"] == code
        assert talking.runs == []
        assert talking.records("assistant/message", "tool/call", "tool/result") == []
        assert await talking.say("Still there?") == {"kind": "completed"}
        assert [message["role"] for message in talking.bodies()[-1]["messages"]] == ["user", "user"]
        talking.check(tmp_path)


@pytest.mark.parametrize(
    "file",
    ["K37-no-id.sse", "K37-empty-id.sse", "K37-two-calls-no-id.sse", "K37-late-id.sse", "K37-two-calls-no-index.sse"],
)
@FORMATS
async def test_what_is_written_can_be_taken_up(version: int, file: str, server: Server, tmp_path: Path) -> None:
    """G1: under `seed` no call without an id of its own reaches the log."""
    script = server.script(str(FIELD_CASES / file), "Read.", "Yes.")
    async with talk(script, version) as first:
        assert await first.say("Read.") == {"kind": "completed"}
        first.check(tmp_path)
        stored = (first.agent.session.header, tuple(first.agent.session.events))
        calls = [call["callId"] for call in first.records("tool/call")]
        assert all(calls)
        assert len(set(calls)) == len(calls) == len(first.runs)
    async with talk(script, version, stored) as second:
        assert await second.say("Sure?") == {"kind": "completed"}
        wire = second.bodies()[-1]["messages"]
        assert [call["id"] for message in wire for call in message.get("tool_calls", ())] == calls
        assert [message["tool_call_id"] for message in wire if message["role"] == "tool"] == calls


@FORMATS
async def test_cancel_keeps_what_was_seen(version: int, server: Server, tmp_path: Path) -> None:
    script = server.script({"body": payloads(*said("Half an ", "answer"), done=False), "end": "open"}, "Go on.")
    async with talk(script, version) as talking:
        seen = anyio.Event()

        def hear(data: Any) -> None:
            if "answer" in json.dumps(thaw(data)):
                seen.set()

        talking.harness.on("agent/assistant-stream", lambda payload: hear(payload["frame"].get("chunk", {})))
        talking.harness.on("session/event", lambda _, event: hear(event["data"].get("chunk", {})))
        talking.agent.followup("Go.")
        await seen.wait()
        talking.agent.cancel({"kind": "user"})
        await talking.agent.when_idle()
        (anchor,) = talking.records("assistant/message")
        assert anchor["interrupted"] is True
        assert thaw(anchor["message"]["content"]) == [{"type": "text", "text": "Half an answer"}]
        assert script.log()[0]["end"] == "client left"
        assert await talking.say("Please do.") == {"kind": "completed"}
        talking.check(tmp_path)


async def test_what_the_adapter_fills_in_is_recorded(server: Server, tmp_path: Path) -> None:
    script = server.script(
        {"text": "Hi.", "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}}
    )
    async with talk(script) as talking:
        await talking.say("Hello.")
        header = talking.records("request/header")[0]["header"]
        assert thaw(header["config"]) == {
            "provider": PROVIDER,
            "model": "m1",
            "reasoningEffort": "high",
            "maxTokens": 256_000,
        }
        assert thaw(header["adapterDefaults"]) == {"reasoningEffort": True, "maxTokens": True}
        assert talking.records("request/context")[0]["contextWindow"] == 1_000_000
        assert thaw(talking.records("assistant/message")[0]["usage"]) == {
            "inputTokens": 5,
            "outputTokens": 2,
            "cacheReadTokens": 4,
        }
        body = talking.bodies()[0]
        assert (body["max_tokens"], body["reasoning_effort"]) == (256_000, "high")
        headers = script.log()[0]["headers"]
        assert headers["x-deepseek-harness-session-id"] == "s"
        assert headers["accept"] == "text/event-stream"
        assert "x-deepseek-harness-compact" not in headers
        talking.check(tmp_path)


@pytest.mark.parametrize(("key", "code"), [(None, "MISSING_CREDENTIAL"), ("", "INVALID_CREDENTIAL")])
async def test_a_missing_key_is_a_failure_of_the_request(key: str | None, code: str, server: Server) -> None:
    async with talk(server.script("Hi."), api_key=lambda: key) as talking:
        assert (await talking.say("Hello."))["error"]["code"] == code
