"""One resume of a stored session on the reference harness, in a fresh process: `python -m benchmarks.resume_once ROOT`.

Prints one line of JSON, as `node/resume.mjs` does for the published packages: the CPU seconds that all threads used
for the resume, and for the resume and one look at every event; the peak of the process before and behind the resume in
MiB, and the events loaded.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import anyio

from benchmarks.measure import peak
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter

SESSION = "bench"


async def resume(root: Path) -> dict[str, float]:
    """Resume the session below `root`, and say what it took."""
    persona = "You are a benchmark agent."
    async with open_harness("dsh-0.1", session_format=0, persona=persona, sessions_root=root) as harness:
        harness.llm.register_adapter(["mock"], ScriptedAdapter([]))
        before, start = peak(), time.process_time()
        agent = await harness.resume_agent(SESSION, AgentOptions(provider="mock", model="m1"))
        used, most = time.process_time() - start, peak()
        events = sum(1 for event in agent.session.events if event["data"] is not None)
        walked = time.process_time() - start
        return {"used": used, "walked": walked, "before": before, "peak": most, "events": events}


if __name__ == "__main__":
    print(json.dumps(anyio.run(resume, Path(sys.argv[1]))))
