"""The tool side: registry, schema checks and the execution pipeline."""
