"""Broken logs: messages."""

from __future__ import annotations

from tests.logs.bad.case import Bad, case, edited


@case
def v4_plugin_source() -> Bad:
    return edited(
        4, "S-LNT-39", "user/message", lambda row: row["data"].update(source={"kind": "plugin", "plugin": "x"})
    )


@case
def v4_result_of_role_user() -> Bad:
    return edited(4, "S-LNT-38", "tool/result", lambda row: row["data"]["message"].update(role="user"))


@case
def v4_result_ids_disagree() -> Bad:
    return edited(4, "S-LNT-40", "tool/result", lambda row: row["data"]["message"].update(toolCallId="other"))


@case
def v4_error_without_flag() -> Bad:
    error = {"name": "E", "code": "X"}
    return edited(4, "S-LNT-41", "tool/result", lambda row: row["data"].update(error=error))


@case
def v4_retired_block() -> Bad:
    block = {"type": "tool-result", "toolCallId": "c", "content": []}
    return edited(4, "S-LNT-42", "user/message", lambda row: row["data"].update(content=[block]))
