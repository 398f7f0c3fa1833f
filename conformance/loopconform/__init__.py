"""Conformance for people who never read our Python: checker, explorer, reports, command line."""
