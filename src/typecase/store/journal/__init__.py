"""Journals of token sets: edits kept, seen in a view, applied in place, taken back, and written as new sets."""
