"""The permission plugin: rules, questions, remembered answers, and cancels (llm-and-tools 9.2, 9.3; T-303, RACE-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from tests.harness.conversation import USER, Conversation, conversation

from loopconform.check import check_file
from loopconform.script.output import pieces
from loopharness import permissions
from loopharness.gate import Gate
from loopharness.model.scripted import text, tool_calls
from loopharness.permissions import Answer, Question, Rule

pytestmark = pytest.mark.anyio

FORMATS = pytest.mark.parametrize("session_format", [0, 4])


def calls(*calls: tuple[str, Mapping[str, Any]]) -> Any:
    """One answer with these calls."""
    return tool_calls(*((f"c{number}", name, dict(arguments)) for number, (name, arguments) in enumerate(calls, 1)))


class Person:
    """Answers in order; keeps the questions."""

    def __init__(self, *answers: Answer, gate: Gate | None = None) -> None:
        self.answers = [*answers]
        self.asked: list[Question] = []
        self.gate = gate
        self.left = 0

    async def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        try:
            if self.gate is not None:
                await self.gate.enter()
        finally:
            self.left += 1
        return self.answers.pop(0)


async def ran(talk: Conversation, *names: str) -> list[tuple[str, str]]:
    """Play one turn: for each call, whether its body ran, and the text of its result."""
    entered: list[str] = []
    for name in names:
        talk.tool(name, lambda execution: entered.append(execution.call_id))
    talk.followup("a")
    await talk.idle()
    results = talk.records("tool/result")
    found = []
    for data in results:
        message = data["message"]
        content = message["content"][0]["content"] if message["role"] == "user" else message["content"]
        found.append(("ran" if message["source"]["callId"] in entered else "not", content[0]["text"]))
    return found


@FORMATS
async def test_the_first_rule_that_fits_decides(session_format: int) -> None:
    answer = calls(("read", {"path": "a"}), ("read", {"path": "secret/x"}), ("read", {"path": 3}), ("write", {}))
    async with conversation(answer, text("Done."), session_format=session_format) as talk:
        rules = [
            Rule("read", "deny", {"path": "secret/*"}, "that is private"),
            Rule("read", "deny", {"path": "3"}),
            Rule("r*", "allow"),
        ]
        permissions.install(talk.harness, rules, default="deny")
        assert await ran(talk, "read", "write") == [
            ("ran", "fine"),
            ("not", 'Error: the permission policy denies tool "read": that is private'),
            ("not", 'Error: the permission policy denies tool "read"'),
            ("not", 'Error: the permission policy denies tool "write"'),
        ]


ANSWERS: list[tuple[Answer, str, str]] = [
    ("once", "ran", "fine"),
    ("always", "ran", "fine"),
    ("no", "not", 'Error: the user rejected tool "write"'),
    ("never", "not", 'Error: the user rejected tool "write"'),
]


@pytest.mark.parametrize(("answer", "body", "words"), ANSWERS)
@FORMATS
async def test_an_answer_decides_and_may_be_remembered(
    session_format: int, answer: Answer, body: str, words: str
) -> None:
    twice = calls(("write", {"path": "a"}), ("write", {"path": "b"}))
    async with conversation(twice, text("Done."), session_format=session_format) as talk:
        person = Person(answer, answer)
        permissions.install(talk.harness, [Rule("write", "ask", reason="it changes files")], asker=person)
        results = await ran(talk, "write")
        assert results[0] == (body, words)
        assert len(person.asked) == (1 if answer in ("always", "never") else 2)
        denied = 'Error: the permission policy denies tool "write": the user said never'
        assert results[1] == (body, denied if answer == "never" else words)
        first = person.asked[0]
        assert (first.agent, first.tool, first.arguments, first.reason) == (
            "main",
            "write",
            {"path": "a"},
            "it changes files",
        )


async def test_an_answer_about_a_command_is_remembered_for_that_very_command() -> None:
    answer = calls(("command", {"command": "ls *"}), ("command", {"command": "ls *"}), ("command", {"command": "ls x"}))
    async with conversation(answer, text("Done.")) as talk:
        person = Person("always", "no")
        permissions.install(talk.harness, asker=person)
        assert [body for body, _ in await ran(talk, "command")] == ["ran", "ran", "not"]
        assert [question.arguments for question in person.asked] == [{"command": "ls *"}, {"command": "ls x"}]


async def test_an_answer_never_overrules_a_rule_that_denies() -> None:
    answer = calls(("write", {"path": "a"}), ("write", {"path": "secret"}))
    async with conversation(answer, text("Done.")) as talk:
        permissions.install(talk.harness, [Rule("write", "deny", {"path": "secret"})], asker=Person("always"))
        assert [body for body, _ in await ran(talk, "write")] == ["ran", "not"]


@FORMATS
async def test_without_anybody_to_ask_a_question_is_a_refusal(session_format: int) -> None:
    async with conversation(calls(("write", {})), text("Done."), session_format=session_format) as talk:
        permissions.install(talk.harness)
        words = 'Error: tool "write" requires approval, but no approval channel is available'
        assert await ran(talk, "write") == [("not", words)]
        assert [data["outcome"] for data in talk.records("approval/decided")] == ["unavailable"]


@pytest.mark.parametrize("others", ["deny", "ask", "throw"])
async def test_the_strictest_listener_wins(others: str) -> None:
    async with conversation(calls(("read", {})), text("Done.")) as talk:
        person = Person("once")
        permissions.install(talk.harness, [Rule("read", "allow")], asker=person)
        answer: Any = RuntimeError("broken") if others == "throw" else {"kind": others, "reason": "theirs"}
        talk.during("tools/pre-execute", answer=answer)
        results = await ran(talk, "read")
        assert results == [
            {"deny": ("not", "Error: theirs"), "ask": ("ran", "fine"), "throw": ("not", "Error: broken")}[others]
        ]
        assert len(person.asked) == (others == "ask")


@FORMATS
async def test_t_303_a_cancel_takes_the_question_back(session_format: int) -> None:
    """The outcome is `cancelled`, the call ends before its body, and the asker is gone."""
    gate = Gate()
    async with conversation(calls(("write", {}), ("write", {})), session_format=session_format) as talk:
        person = Person("once", gate=gate)
        permissions.install(talk.harness, asker=person)
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await gate.reached()
                talk.agent.cancel(USER)

            group.start_soon(cancel)
            results = await ran(talk, "write")
        assert results == [("not", "Error: tool call aborted before dispatch")] * 2
        assert [data["outcome"] for data in talk.records("approval/decided")] == ["cancelled"]
        assert (len(person.asked), person.left) == (1, 1)
        assert talk.ends() == ["aborted user"]


RACES: list[tuple[Answer, str]] = [
    ("once", "Error: tool call aborted before dispatch"),
    ("no", 'Error: the user rejected tool "write"'),
]


@pytest.mark.parametrize(("answer", "words"), RACES)
async def test_race_3_the_answer_comes_in_the_moment_of_the_cancel(answer: Answer, words: str) -> None:
    """A permission is overtaken by the abort, a refusal keeps its reason."""
    async with conversation(calls(("write", {}))) as talk:

        async def ask(question: Question) -> Answer:
            talk.agent.cancel(USER)
            return answer

        permissions.install(talk.harness, asker=ask)
        assert await ran(talk, "write") == [("not", words)]


async def test_an_asker_that_fails_fails_the_call_and_the_loop_goes_on() -> None:
    async def ask(question: Question) -> Answer:
        raise RuntimeError("the screen is gone")

    async with conversation(calls(("write", {})), text("Done.")) as talk:
        permissions.install(talk.harness, asker=ask)
        assert await ran(talk, "write") == [("not", "Error: the screen is gone")]
        assert talk.ends() == ["completed"]
        assert [data["outcome"] for data in talk.records("approval/decided")] == ["unavailable"]


async def test_two_agents_ask_one_after_the_other_and_share_an_answer() -> None:
    """The second question waits; what the first answer has settled is not asked again."""
    gate = Gate()
    async with conversation(calls(("write", {})), calls(("write", {})), text("Done."), text("Done.")) as talk:
        person = Person("always", gate=gate)
        permissions.install(talk.harness, asker=person)
        entered: list[str] = []
        talk.tool("write", lambda execution: entered.append(execution.agent.id))  # type: ignore[attr-defined]
        other = await talk.harness.create_agent("other", talk.agent.options)
        talk.followup("a")
        await gate.reached()
        other.followup("b")
        await anyio.wait_all_tasks_blocked()
        assert len(person.asked) == 1
        gate.open()
        await talk.idle()
        await other.when_idle()
        assert (entered, len(person.asked)) == (["main", "other"], 1)


@FORMATS
async def test_the_log_of_questions_is_legal(session_format: int, tmp_path: Any) -> None:
    answer = calls(("write", {}), ("write", {"a": 1}), ("read", {}))
    async with conversation(answer, text("Done."), session_format=session_format) as talk:
        permissions.install(talk.harness, [Rule("read", "allow")], asker=Person("once", "no"))
        await ran(talk, "read", "write")
        session = talk.agent.session
        path = tmp_path / "log.jsonl"
        path.write_bytes(b"".join(pieces(session.header, [*session.events], 0, zstd=False)))
        assert [row["outcome"] for row in talk.records("approval/decided")] == ["allowed-once", "rejected"]
    assert [str(finding) for finding in check_file(path).findings] == []


async def test_there_is_one_who_answers_and_he_leaves_with_his_context() -> None:
    async with conversation() as talk:
        own = talk.harness.context.child("own")
        permissions.install(talk.harness, context=own)
        with pytest.raises(ValueError, match="answers them already"):
            permissions.install(talk.harness)
        await own.dispose()
        permissions.install(talk.harness)
