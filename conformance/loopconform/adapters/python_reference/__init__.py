"""The reference harness behind the conformance protocol: in process, or as `python -m` over stdio."""
