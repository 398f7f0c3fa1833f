"""Benchmarks: run them with `make bench`, or one with `make bench ONLY=loop`."""
