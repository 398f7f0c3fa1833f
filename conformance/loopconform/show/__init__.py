"""A session for people.

`story` folds events into turns, steps and lines, `requests` rebuilds what the model saw, `render` prints either.
"""
