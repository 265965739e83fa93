"""Suffixes: the order of all suffixes of a token text, and what follows from it: repeats and their counts."""
