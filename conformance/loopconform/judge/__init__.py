"""The judge: which states of the law are consistent with everything that an implementation showed so far?

A *point* is one such state: the machine's configuration and what the surroundings have done. Every message of an
adapter maps the set of points to the set after it; moves that nobody can see are closed over. An empty set is a
failure at that message. `loop_judge` follows one agent with `loopspec.loop`, `creation_judge` the life of all agents
with `loopspec.creation`; `court` hands the messages to both.
"""
