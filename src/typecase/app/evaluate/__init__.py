"""The verb evaluate: perplexity, tasks, the harness, win rates, and one evaluation against another."""
