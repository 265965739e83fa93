"""Mixing: from weights to tokens, repeats and epochs, and from small proxy runs to weights."""
