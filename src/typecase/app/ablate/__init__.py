"""The verb ablate: arms to token sets, runs to findings, findings to tables, curves and a page."""
