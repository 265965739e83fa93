"""An n-gram language model of our own: symbols, counts that add up, modified Kneser-Ney, scores."""
