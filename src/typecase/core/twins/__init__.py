"""Twins: a page as a crawler sees it, and which of its lines are its content."""
