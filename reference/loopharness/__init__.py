"""A harness people can use: it performs what the spec decides."""
