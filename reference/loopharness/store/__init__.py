"""Sessions on disk: the text of rows (`rows`), and what is built on it."""
