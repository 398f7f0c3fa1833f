"""Scripted conversations.

`text` reads YAML, `model` says what a script may hold, `load` joins the two, `play` runs a script on the reference
harness, `output` writes the session file.
"""
