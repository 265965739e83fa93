"""Index: exact search over the tokens of a set, documents fenced."""
