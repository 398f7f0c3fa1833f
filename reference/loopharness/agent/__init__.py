"""The agent: the driver machine run live. `agent.py` is the shell, the other files are its payload side."""

from loopharness.agent.agent import Agent
from loopharness.agent.messages import user_message
from loopharness.agent.options import AgentOptions, Services

__all__ = ["Agent", "AgentOptions", "Services", "user_message"]
