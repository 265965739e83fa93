"""typecase."""
