"""Machinery that every spec machine stands on: protocol, exploration, liveness, graph export."""
