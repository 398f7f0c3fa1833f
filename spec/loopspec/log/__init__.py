"""The durable log: record shapes in each dialect, and the rules a whole log obeys."""
