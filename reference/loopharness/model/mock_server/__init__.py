"""A model server that says what it was told to, over the wire: also late, wrong, cut off, or nothing at all."""

from loopharness.model.mock_server.script import Answer, Script
from loopharness.model.mock_server.server import MockServer

__all__ = ["Answer", "MockServer", "Script"]
