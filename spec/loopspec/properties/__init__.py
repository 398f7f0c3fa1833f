"""What the machines promise: one sentence each, judged by what a bystander saw. See `bystander` first."""
