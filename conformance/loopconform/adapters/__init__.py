"""Adapters that come with the suite, as Python packages."""
