"""Vocabularies read for an audit, wherever they lie, and what they hold, token by token."""
