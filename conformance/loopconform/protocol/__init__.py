"""The protocol between the suite and an implementation: every message, as pydantic models (`conformance/PROTOCOL.md`).

`parts` holds the vocabulary that both directions share, `requests` what the suite says, `replies` what an adapter
says, `case` the files of cases. `python -m loopconform.protocol` writes the JSON Schemas.
"""

from loopconform.protocol.case import Case, content_hash, load_case, load_cases
from loopconform.protocol.parts import PROTOCOL_VERSION
from loopconform.protocol.replies import Reply, read_reply
from loopconform.protocol.requests import Request, write_request

__all__ = [
    "PROTOCOL_VERSION",
    "Case",
    "Reply",
    "Request",
    "content_hash",
    "load_case",
    "load_cases",
    "read_reply",
    "write_request",
]
