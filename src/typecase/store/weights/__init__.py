"""Weights at rest: the matrices of a checkpoint read row by row from its files, no model built and no code of theirs run."""
