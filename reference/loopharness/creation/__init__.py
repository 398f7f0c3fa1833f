"""Creation, resume and disposal of agents: the machine `loopspec.creation`, run live.

`engine.py` runs the machine and keeps the two registries, `transactions.py` performs what a create or resume is made
of, `scheduler.py` answers the await points, `initiator.py` carries the initiating agent along. `loopharness.agents`
is the front of it all.
"""
