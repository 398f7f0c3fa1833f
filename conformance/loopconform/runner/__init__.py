"""The runner: adapters as processes or in this one, cases run on them, verdicts, shrinking, reports."""
