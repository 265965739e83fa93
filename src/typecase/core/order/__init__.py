"""Training orders: which tokens of which sequences every training step sees, and when a sequence is seen again."""
