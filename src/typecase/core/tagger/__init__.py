"""Tagger: what is seen of a page's lines, and how what is said of each line is smoothed along the page."""
