"""Selection: budgets over strata, keys, cuts, and a reason for every row."""
