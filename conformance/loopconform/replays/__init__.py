"""Runs that TLC found, played by any adapter over the protocol.

`program` turns the labels of a run into a program, with `streams` for what an answer of the model has to consist of;
`played` plays it like a case, judges it, and says how far the implementation followed the run. `transcript` is what an
adapter showed, as the rows of a session log or as labels.
"""
