"""Statistics of scores that add up over shards: exact sums, joint histograms, principal axes, samples by hash."""
