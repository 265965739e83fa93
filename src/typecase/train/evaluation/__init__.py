"""Evaluation: what a trained model is worth: perplexity of documents, tasks for tiny models, the harness, win rates."""
