"""A conversation at the terminal: `journal.py` keeps it, `screen.py` shows it, `talk.py` leads it."""
