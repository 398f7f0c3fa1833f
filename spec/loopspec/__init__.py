"""The law of the agent loop: pure, executable state machines. Start at `spec/README.md`."""
