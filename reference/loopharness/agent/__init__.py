"""The agent: the driver machine run live. `agent.py` is the shell, the other files are its payload side."""

from loopharness.agent.agent import Agent, AgentOptions, Services
from loopharness.agent.messages import user_message

__all__ = ["Agent", "AgentOptions", "Services", "user_message"]
