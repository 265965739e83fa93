"""A training run as data: its token sets, the order of their samples, and the steps that read them."""
