"""Rules: what proposes programs, as data and small functions."""
