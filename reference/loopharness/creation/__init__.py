"""Creation, resume and disposal of agents: the machine `loopspec.creation`, run live.

`engine.py` runs the machine and keeps the two registries, `order.py` is what is asked for, `transaction.py` one create
or resume under way, `transactions.py` performs what they are made of, `scheduler.py` answers the await points,
`initiator.py` carries the initiating agent along. `loopharness.agents` is the front of it all.
"""
