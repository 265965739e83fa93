"""Edits: what is replaced by what in a token set, how it is taken back, and how an injection is planned."""
