"""The tape: what leaves the model's view, what stays, in which words, and how everything is got back.

`select` decides what is sealed, `entry` writes it, `seal` is the plan over a log, `index` is what is known about
a log, `pages` and `search` are what the recall tools answer, `fold` and `digest` shorten tool results before
their first request, `config` reads the settings, `prefix` compares requests, and `machine` is the policy as a
machine to explore.
"""
