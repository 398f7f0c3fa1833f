"""Level L1: an agent seen from outside only, by what it asks of a model server and by the session log that it writes.

The suite is the model (`loopharness.model.mock_server`), the agent is a command of the user's. `scenario` has the
shape of a scenario file, `drive` runs one, `judge` holds what came back against the law.
"""
