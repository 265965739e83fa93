"""Glitch tokens: the laws by which a token is found never to be trained, before a model is."""
