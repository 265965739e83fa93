"""Tokenizers: text to ids and back, by the fastest engine that is proven to give the same ids."""
