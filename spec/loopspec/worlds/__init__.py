"""Machines within bounded environments, ready to be explored: `world`, and one module per machine."""
