"""Faults planted in clean texts at a known dose, to see what a rater notices."""
