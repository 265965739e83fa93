"""Learning: ridge and trees for data sets of a few thousand rows, and the figures that judge a rater."""
