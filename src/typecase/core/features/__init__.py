"""Features: what a rater sees of a text: windows, tokens, measures, n-grams."""
